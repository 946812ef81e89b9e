// Which plans a transport can carry that tells messages apart by their order alone.
#include "transports/message_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {
namespace {

Plan plan_of(std::string_view schedule, std::uint32_t workers) {
  Problem p;
  p.workers = workers;
  p.tokens = {std::int64_t{16} * workers};
  p.pass = Pass::Both;
  return limit_communication(build_plan(p, find_schedule(schedule)), {});
}

TEST(MessageOrder, OfEveryScheduleIsTheSameAtBothEnds) {
  for (const Schedule& s : schedules())
    for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 7u, 8u, 16u})
      EXPECT_EQ(order_conflict(plan_of(s.name, workers)), "") << s.name << " " << workers;
}

// The same plan with the receives of two messages of one way in each other's place.
TEST(MessageOrder, ThatDiffersIsNamed) {
  Plan plan = plan_of("ring", 4);
  std::vector<std::uint32_t> receives;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.kind == TaskKind::Receive && t.worker_index == 1 && t.lane == Lane::Fetch &&
        plan.tasks[t.peer.value].worker_index == 0)
      receives.push_back(id);
  }
  ASSERT_GE(receives.size(), 2u);
  std::swap(plan.tasks[receives[0]].peer, plan.tasks[receives[1]].peer);
  EXPECT_THAT(order_conflict(plan), testing::HasSubstr("not received in the order"));
  plan = plan_of("ring", 4);
  plan.tasks[receives[0]].lane = Lane::Return;
  EXPECT_THAT(order_conflict(plan), testing::HasSubstr("another lane"));
}

}  // namespace
}  // namespace ringsched
