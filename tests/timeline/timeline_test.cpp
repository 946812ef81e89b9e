#include "ringsched/timeline/timeline.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "support/cases.hpp"
#include "support/more_lanes.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Plan plan_of(const Schedule& s, std::uint32_t workers, Pass pass = Pass::Both) {
  return limit_communication(build_plan(small_problem(workers, 5 * workers + 2, pass), s), {});
}

// With times that are all different.
Timeline timed(const Plan& plan, TimelineSource source = TimelineSource::Predicted) {
  Timeline t = timeline_of(plan, source, "a \"machine\" of \\ mine\t\x01");
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    t.tasks[i].start_ps = static_cast<std::int64_t>(i * i * 1'000'003);
    t.tasks[i].end_ps = t.tasks[i].start_ps + static_cast<std::int64_t>(7 * i);
  }
  return t;
}

class TimelineOfSchedule : public testing::TestWithParam<Case> {};

TEST_P(TimelineOfSchedule, ReadsAsItWasWritten) {
  const auto [schedule, workers] = GetParam();
  for (const TimelineSource source : {TimelineSource::Predicted, TimelineSource::Measured}) {
    const Timeline t = timed(plan_of(*schedule, workers), source);
    const Timeline back = read_timeline(write_timeline(t), "text");
    EXPECT_EQ(back, t);
    EXPECT_EQ(write_timeline(back), write_timeline(t));
  }
}

TEST(Timeline, KeepsHowSureItIs) {
  Timeline t = timed(plan_of(find_schedule("ring"), 2));
  t.interval = {Picoseconds{7}, Picoseconds{1'234'567}};
  t.bound = Picoseconds{987'654};
  const std::string text = write_timeline(t);
  EXPECT_EQ(read_timeline(text, "text"), t);
  for (const char* wrong : {"[7]", "[8,7]", "[-1,7]", "7", "[7,8,9]", "[0.5,1]"}) {
    std::string spoilt = text;
    spoilt.replace(spoilt.find("[7,1234567]"), 11, wrong);
    EXPECT_THROW(read_timeline(spoilt, "text"), Error) << wrong;
  }
  for (const char* wrong : {"-1", "0.5", "[7]"}) {
    std::string spoilt = text;
    spoilt.replace(spoilt.find("987654"), 6, wrong);
    EXPECT_THROW(read_timeline(spoilt, "text"), Error) << wrong;
  }
}

TEST_P(TimelineOfSchedule, SaysOfEachTaskWhatThePlanSays) {
  const auto [schedule, workers] = GetParam();
  const Plan plan = plan_of(*schedule, workers);
  const Timeline t = timeline_of(plan, TimelineSource::Measured, "m");
  ASSERT_EQ(t.tasks.size(), plan.tasks.size());
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const Task& task = plan.tasks[i];
    const auto home = [&](RegionId r) {
      return plan.layout.owner(plan.regions[r.value].first).value;
    };
    EXPECT_EQ(t.tasks[i].kind, task.kind);
    EXPECT_EQ(t.tasks[i].makes, plan.value(task));
    EXPECT_EQ(t.tasks[i].lane, task.lane);
    EXPECT_EQ(t.tasks[i].worker, task.worker_index);
    EXPECT_EQ(t.tasks[i].step, task.step);
    // What an exchange brought is its worker's own.
    const auto of_several = [&](RegionId r) {
      const Region rows = plan.regions[r.value];
      return rows.count == 0 ||
             plan.layout.owner(rows.first) != plan.layout.owner({rows.end() - 1});
    };
    if (plan.exchanges.empty()) {
      EXPECT_EQ(t.tasks[i].queries, home(plan.rows(task)));
    }
    if (is_attend(task.kind)) {
      if (!of_several(task.keys)) {
        EXPECT_EQ(t.tasks[i].other, home(task.keys));
      }
    } else if (is_transfer(task.kind)) {
      EXPECT_EQ(t.tasks[i].other, plan.tasks[task.peer.value].worker_index);
    }
  }
}

TEST_P(TimelineOfSchedule, HasTheHashOfEqualPlansOnly) {
  const auto [schedule, workers] = GetParam();
  const std::uint32_t others = workers > 2 ? workers - 2 : 2 * workers;
  const Plan plan = plan_of(*schedule, workers);
  EXPECT_EQ(plan_hash(plan), plan_hash(plan_of(*schedule, workers)));
  EXPECT_EQ(plan_hash(plan).size(), 16u);
  // Regions and works may be numbered otherwise in what was read from a file.
  EXPECT_EQ(plan_hash(read_plan(write_plan(plan), "plan")), plan_hash(plan));
  EXPECT_NE(plan_hash(plan), plan_hash(plan_of(*schedule, others)));
  EXPECT_NE(plan_hash(plan), plan_hash(plan_of(*schedule, workers, Pass::Forward)));
}

TEST(Timeline, OfMoreLanesReadsAsItWasWritten) {
  const Timeline t = timed(on_more_lanes(plan_of(find_schedule("zigzag"), 5)));
  EXPECT_EQ(t.lanes.size(), 8u);
  EXPECT_TRUE(std::any_of(t.tasks.begin(), t.tasks.end(),
                          [](const TimelineTask& x) { return x.lane == static_cast<Lane>(7); }));
  const Timeline back = read_timeline(write_timeline(t), "text");
  EXPECT_EQ(back, t);
  EXPECT_EQ(write_timeline(back), write_timeline(t));
}

INSTANTIATE_TEST_SUITE_P(Timeline, TimelineOfSchedule, testing::ValuesIn(all_schedules(9)),
                         [](const auto& i) { return i.param.name(); });

// One small change at a time; no two give the same hash.
TEST(PlanHash, DiffersWhereAnythingDiffers) {
  const Plan plan = plan_of(find_schedule("balanced-split"), 4);
  std::uint32_t attend = 0, send = 0, merge = 0;
  while (plan.tasks[attend].kind != TaskKind::Attend) ++attend;
  while (plan.tasks[send].kind != TaskKind::Send) ++send;
  while (plan.tasks[merge].kind != TaskKind::Merge) ++merge;
  const std::function<void(Plan&)> changes[] = {
      [](Plan&) {},
      [](Plan& p) { p.problem.workers = 5; },
      [](Plan& p) { p.problem.tokens.value += 1; },
      [](Plan& p) { p.problem.heads *= 2; },
      [](Plan& p) { p.problem.kv_heads = 1; },
      [](Plan& p) { p.problem.head_dim = 16; },
      [](Plan& p) { p.problem.dtype = Dtype::Fp16; },
      [](Plan& p) { p.problem.mask = Mask::full(); },
      [](Plan& p) { p.problem.mask = Mask::window({7}); },
      [](Plan& p) { p.problem.pass = Pass::Backward; },
      [](Plan& p) { p.layout.chunks[1].start += 1; },
      [](Plan& p) { p.layout.chunks[1].count += 1; },
      [](Plan& p) { p.layout.chunks[1].stride += 1; },
      [](Plan& p) { p.layout.shares[0].count += 1; },
      [](Plan& p) { p.dummy_heads = 1; },
      [&](Plan& p) { p.tasks[merge].kind = TaskKind::Reduce; },
      [&](Plan& p) { set_value(p, p.tasks[send], attention::kQueryGradient); },
      [&](Plan& p) { p.tasks[send].lane = Lane::Compute; },
      [&](Plan& p) { p.tasks[send].lane = Lane::Return; },
      [&](Plan& p) { p.tasks[send].lane = static_cast<Lane>(3); },
      [&](Plan& p) { p.tasks[send].lane = static_cast<Lane>(4); },
      [&](Plan& p) { p.tasks[send].lane = static_cast<Lane>(7); },
      [](Plan& p) { p.lanes.emplace_back("outer"); },
      [](Plan& p) { p.lanes.emplace_back("inner"); },
      [&](Plan& p) { p.tasks[send].with_previous ^= true; },
      [&](Plan& p) { p.tasks[send].worker_index ^= 1; },
      [&](Plan& p) { p.tasks[send].step += 1; },
      [&](Plan& p) { p.tasks[send].peer.value += 1; },
      [&](Plan& p) {
        set_rows(p, p.tasks[attend], {p.rows(p.tasks[attend]).value == 0 ? 1u : 0u});
      },
      [&](Plan& p) { p.tasks[attend].keys = {p.tasks[attend].keys.value == 0 ? 1u : 0u}; },
      [&](Plan& p) { p.tasks[attend].inputs[0].value += 1; },
      [&](Plan& p) { std::swap(p.tasks[attend].inputs[0], p.tasks[attend].inputs[1]); },
      [&](Plan& p) { p.tasks[merge].inputs[1] = {}; },
      [&](Plan& p) { std::swap(p.tasks[merge].inputs[1], p.tasks[merge].inputs[2]); },
      [](Plan& p) { p.tasks.pop_back(); },
      [](Plan& p) { p.tasks.push_back(p.tasks.back()); },
      [](Plan& p) { p.controls.pop_back(); },
      [](Plan& p) { p.controls[0].before.value += 1; },
      [](Plan& p) { p.controls[0].after.value += 1; },
      [](Plan& p) { p.initial.pop_back(); },
      [](Plan& p) {
        p.slots.push_back({{0}, 1});
      },
  };
  std::set<std::string> hashes;
  for (const auto& change : changes) {
    Plan other = plan;
    change(other);
    EXPECT_TRUE(hashes.insert(plan_hash(other)).second) << "change " << hashes.size();
  }
}

TEST(Timeline, ReadsTheLargestTimesThereAre) {
  Timeline t = timed(plan_of(find_schedule("ring"), 2));
  t.tasks[0].start_ps = (std::int64_t{1} << 62) - 1;
  t.tasks[0].end_ps = 2 * t.tasks[0].start_ps;
  EXPECT_EQ(read_timeline(write_timeline(t), "text"), t);
  EXPECT_EQ(t.makespan().value, t.tasks[0].end_ps);
}

TEST(Timeline, IsWrittenToAFileAndReadFromIt) {
  const std::string path = testing::TempDir() + "ringsched_timeline_test.json";
  const Timeline t = timed(plan_of(find_schedule("balanced"), 5));
  write_timeline_file(t, path);
  EXPECT_EQ(read_timeline_file(path), t);
  EXPECT_EQ(std::filesystem::file_size(path), write_timeline(t).size());
  std::filesystem::remove(path);
  EXPECT_THROW(read_timeline_file(path), Error);
  EXPECT_THROW(write_timeline_file(t, testing::TempDir()), Error);
}

// Lists of names may stand in another order, or hold fewer: their numbers are the file's own.
TEST(Timeline, TakesTheNamesOfTheFileForItsNumbers) {
  Timeline t =
      timeline_of(plan_of(find_schedule("ring"), 1, Pass::Forward), TimelineSource::Predicted, "m");
  std::string text = write_timeline(t);
  const auto from = text.find("\"kinds\": ["), to = text.find("]", from);
  text.replace(from, to - from, R"("kinds": ["output", "attend")");
  const auto rows = text.find("\"tasks\"");
  ASSERT_EQ(t.tasks.size(), 2u);
  text.replace(text.find("[0,", rows), 3, "[1,");
  text.replace(text.find("[7,", rows), 3, "[0,");
  EXPECT_EQ(read_timeline(text, "text"), t);
}

}  // namespace
}  // namespace ringsched
