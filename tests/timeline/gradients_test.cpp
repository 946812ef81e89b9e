// How much of a backward attend's result is which gradient.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "support/cases.hpp"
#include "support/refusal.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Plan plan_of(const char* schedule, Pass pass) {
  return build_plan(small_problem(4, 101, pass), find_schedule(schedule));
}

Timeline timeline_of(const Plan& plan) { return timeline_of(plan, TimelineSource::Predicted, "m"); }

// Gradients of queries have the size of the queries' rows, and those of keys that of theirs.
TEST(TimelineGradients, AreAsLargeAsThoseOfThePlan) {
  for (const char* schedule : {"ring", "zigzag", "balanced-split", "ulysses"})
    for (const Pass pass : {Pass::Backward, Pass::Both}) {
      SCOPED_TRACE(schedule);
      const Plan plan = plan_of(schedule, pass);
      const Timeline t = timeline_of(plan);
      std::size_t attends = 0;
      for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
        if (plan.tasks[id].kind != TaskKind::AttendBackward) continue;
        ASSERT_LT(attends, t.gradients.size());
        const TaskGradients& g = t.gradients[attends++];
        EXPECT_EQ(g.task, TaskId{id});
        const std::int64_t queries = plan.bytes(plan.piece(plan.tasks[id])).value;
        EXPECT_EQ(g.keys.value + queries, t.details[id].bytes.value);
      }
      EXPECT_EQ(t.gradients.size(), attends);
      EXPECT_GT(attends, 0u);
      EXPECT_EQ(read_timeline(write_timeline(t), "text"), t);
    }
  EXPECT_THAT(write_timeline(timeline_of(plan_of("zigzag", Pass::Forward))),
              Not(HasSubstr("\"gradients\"")));
}

TEST(TimelineGradients, OfOtherTasksOrOfMoreThanIsMadeAreRefused) {
  const Timeline t = timeline_of(plan_of("zigzag", Pass::Backward));
  const std::string text = write_timeline(t), list = "\"gradients\": [";
  const auto with = [&](const std::string& gradients) {
    std::string other = text;
    const std::size_t at = other.find(list) + list.size();
    other.replace(at, other.find("],\n", at) - at, gradients);
    return refusal([&] { read_timeline(other, "t.json"); });
  };
  const std::uint32_t id = t.gradients[0].task.value;
  const std::int64_t bytes = t.details[id].bytes.value;
  EXPECT_EQ(with(fmt::format("[{},{}]", id, bytes)), "");
  for (const std::string& wrong :
       {fmt::format("[{}]", id), fmt::format("[{},1,1]", id), fmt::format("[{},-1]", id),
        fmt::format("[{},{}]", id, bytes + 1), std::string("[-1,0]"), std::string("7"),
        fmt::format("[{},0]", t.tasks.size())})
    EXPECT_THAT(with(wrong), HasSubstr("t.json: gradients 0: ")) << wrong;
  EXPECT_THAT(with(fmt::format("[{},0], [{},0]", id, id)), HasSubstr("t.json: gradients 1: "));
  std::uint32_t other = 0;
  while (is_attend(t.tasks[other].kind)) ++other;
  EXPECT_EQ(with(fmt::format("[{},0]", other)),
            fmt::format("t.json: gradients 0: task {} makes one tensor", other));
  Timeline bare = t;
  bare.details.clear();
  bare.gradients.clear();
  std::string text_of_bare = write_timeline(bare);
  text_of_bare.insert(text_of_bare.find("\"columns\""), "\"gradients\": [],\n");
  EXPECT_THAT(refusal([&] { read_timeline(text_of_bare, "t.json"); }),
              HasSubstr("\"gradients\" needs the columns of details"));
}

}  // namespace
}  // namespace ringsched
