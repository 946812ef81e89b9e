#include "ringsched/scheduler/work_left.hpp"

#include <gtest/gtest.h>

#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {
namespace {

TEST(WorkLeft, OfOneWorkerIsItsPartOfThatOfAll) {
  Problem p;
  p.workers = 5;
  p.tokens = {103};
  p.pass = Pass::Both;
  const Plan plan = build_plan(p, find_schedule("balanced"));
  const std::vector<std::int64_t> all = work_left(plan);
  for (std::uint32_t w = 0; w < p.workers; ++w) {
    std::vector<TaskId> tasks;
    std::vector<std::int64_t> expected;
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      if (plan.tasks[id].worker_index != w) continue;
      tasks.push_back({id});
      expected.push_back(all[id]);
    }
    EXPECT_GT(expected.front(), 0);
    EXPECT_EQ(work_left(plan, tasks), expected) << "worker " << w;
  }
}

}  // namespace
}  // namespace ringsched
