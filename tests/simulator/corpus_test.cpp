// Replays the inputs that the fuzzing programs of tests/fuzz started with, and those that they
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "ringsched/timeline/trace_import.hpp"
#include "support/cases.hpp"
#include "support/paths.hpp"

namespace ringsched {
namespace {

// What reads is looked at further; what does not is refused in one line.
void replay(const char* folder, std::size_t least, const std::function<void(std::string)>& read) {
  const std::filesystem::path corpus = source_folder() / "tests/fuzz/corpus";
  std::size_t files = 0, good = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus / folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    ++files;
    try {
      read(text.str());
      ++good;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("\n")));
    }
  }
  EXPECT_GE(files, least);
  EXPECT_GT(good, 0u);
}

TEST(FuzzCorpus, OfTimelinesReadsAsItIsWritten) {
  replay("timeline_file", 4, [](const std::string& text) {
    const Timeline t = read_timeline(text, "input");
    EXPECT_EQ(read_timeline(write_timeline(t), "its own text"), t);
  });
}

TEST(FuzzCorpus, OfTracesHasItsEventsInOrder) {
  replay("kineto_file", 6, [](const std::string& text) {
    const RankTrace t = read_kineto(text, "input");
    EXPECT_TRUE(std::ranges::is_sorted(t.events, {}, &TraceEvent::start_ps));
  });
}

TEST(FuzzCorpus, OfMachinesRunsOrIsRefused) {
  const Plan plan = limit_communication(
      build_plan(small_problem(4, 403, Pass::Both), find_schedule("balanced")), {});
  replay("machine_file", 8, [&](const std::string& text) {
    const Machine m = read_machine(text, "input");
    const Workload w = price(plan, m);
    const Simulation run = simulate(w);
    EXPECT_EQ(report(w, run).makespan, run.makespan);
  });
}

}  // namespace
}  // namespace ringsched
