#include "ringsched/viz/terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "support/cases.hpp"
#include "support/runs.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

// Cells of a line: characters that are no escape codes.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033') {
      i = line.find('m', i);
    } else if ((static_cast<unsigned char>(line[i]) & 0xc0) == 0x80) {
      all.back() += line[i];
    } else {
      all.emplace_back(1, line[i]);
    }
  }
  return all;
}

Timeline ideal(const char* schedule, std::uint32_t workers) {
  return predicted_run(
      limit_communication(build_plan(small_problem(workers, 64 * workers), find_schedule(schedule)),
                          {}),
      find_machine("ideal"));
}

TEST(TerminalGantt, IsWhatAPersonExpects) {
  EXPECT_EQ(terminal_gantt(ideal("ring", 3), {10 + 25, false}),
            "worker 0  00000····················\n"
            "worker 1  11111│111111111··········\n"
            "worker 2  22222│222222222│222222222\n"
            "          0              2.5 blocks\n"
            "0, 1, ... that worker's queries\n"
            "· done\n");
}

TEST(TerminalGantt, IsAsciiWhereNothingElseCanBeShown) {
  EXPECT_EQ(terminal_gantt(ideal("ring", 3), {.columns = 10 + 25, .plain = true}),
            "worker 0  00000....................\n"
            "worker 1  11111|111111111..........\n"
            "worker 2  22222|222222222|222222222\n"
            "          0              2.5 blocks\n"
            "0, 1, ... that worker's queries\n"
            ". done\n");
  for (const Timeline& t : {ideal("balanced", 5), ideal("ulysses", 4)})
    for (const char c : terminal_gantt(t, {.plain = true}))
      EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_EQ(in_ascii("a █▓░ ·│ ▔┄ ━─ é"), "a #+- .| =~ =- é");
}

// The cube of 256 colours: 16 + 36 red + 6 green + blue.
TEST(TerminalGantt, HasTheNearestOf256Colours) {
  const std::string text =
      terminal_gantt(ideal("ring", 2), {.columns = 40, .colour = true, .indexed = true});
  EXPECT_THAT(text, Not(HasSubstr("48;2;")));
  constexpr int levels[] = {0, 95, 135, 175, 215, 255};
  for (const std::uint32_t worker : {0u, 1u}) {
    const Colour c = worker_colour(worker, 2);
    const auto nearest = [&](int x) {
      int best = 0;
      for (int i = 1; i < 6; ++i)
        if (std::abs(levels[i] - x) < std::abs(levels[best] - x)) best = i;
      return best;
    };
    EXPECT_THAT(text, HasSubstr("\033[48;5;" +
                                std::to_string(16 + 36 * nearest(c.red) + 6 * nearest(c.green) +
                                               nearest(c.blue)) +
                                ";"));
  }
}

TEST(TerminalGantt, ShowsWhoHelps) {
  const auto row = lines(terminal_gantt(ideal("balanced", 4), {10 + 50, false}));
  EXPECT_THAT(row[0], HasSubstr("│3333"));
  EXPECT_THAT(row[3], Not(HasSubstr("0")));
}

TEST(TerminalGantt, FitsItsWidthInColourToo) {
  for (const std::uint32_t workers : {1u, kSanitized ? 3u : 5u, kSanitized ? 2u : 8u})
    for (const NamedRun& r : predicted_runs(workers))
      for (const std::size_t columns : {30u, 79u, 100u, 213u}) {
        SCOPED_TRACE(r.name);
        const std::string plain = terminal_gantt(r.timeline, {columns, false});
        const std::string colour = terminal_gantt(r.timeline, {columns, true});
        EXPECT_THAT(plain, Not(HasSubstr("\033")));
        const auto a = lines(plain), b = lines(colour);
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          EXPECT_LE(cells(a[i]).size(), std::max<std::size_t>(columns, 36)) << a[i];
          EXPECT_EQ(cells(a[i]), cells(b[i]));
        }
        if (HasFailure()) return;
      }
}

// As many cells as the share of time, give or take the ends of each bar.
TEST(TerminalGantt, HasAsManyCellsAsTheTimeTheyStandFor) {
  const std::uint32_t workers = kSanitized ? 3 : 6;
  for (const NamedRun& r : predicted_runs(workers)) {
    SCOPED_TRACE(r.name);
    const std::size_t width = 2000;
    const auto rows = lines(terminal_gantt(r.timeline, {width + 10, false}));
    const RunTimes times = run_times(r.timeline);
    for (std::uint32_t w = 0; w < workers; ++w) {
      const auto it = std::find_if(rows.begin(), rows.end(), [&](const std::string& line) {
        return line.starts_with("worker " + std::to_string(w));
      });
      ASSERT_NE(it, rows.end());
      auto row = cells(*it);
      row.erase(row.begin(), row.begin() + 10);
      const auto count = [&](const std::string& sign) {
        return static_cast<double>(std::count(row.begin(), row.end(), sign));
      };
      const auto share = [&](Picoseconds ps) {
        return static_cast<double>(ps.value) / static_cast<double>(times.makespan.value) * width;
      };
      EXPECT_NEAR(count("·"), share(times.workers[w].out_of_work), 2);
      EXPECT_NEAR(count("░"), share(times.workers[w].waiting), 40);
      EXPECT_NEAR(static_cast<double>(row.size()) - count("·") - count("░") - count("▓"),
                  share(times.workers[w].attending), 40);
    }
    if (HasFailure()) return;
  }
}

TEST(TerminalGantt, RefusesWhatDoesNotFit) {
  EXPECT_THROW(terminal_gantt(ideal("ring", 2), {20, false}), Error);
  EXPECT_THROW(terminal_gantt(ideal("ring", 37), {100, false}), Error);
  EXPECT_THAT(terminal_gantt(ideal("ring", 36), {100, false}), HasSubstr("z│zz"));
  Timeline nothing = ideal("ring", 2);
  for (TimelineTask& t : nothing.tasks) t.start_ps = t.end_ps = 0;
  EXPECT_THROW(terminal_gantt(nothing), Error);
}

}  // namespace
}  // namespace ringsched
