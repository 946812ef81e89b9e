// What `plan` shows of steps and moves, for schedules that the program does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_summary.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;

// Gathers at step 1, attends at step 4, returns what worker 0 computed for worker 1 at step 7.
void late(const Problem&, PlanBuilder& plan) {
  constexpr WorkerId first{0}, second{1};
  plan.step(1);
  const Keys keys = plan.move(plan.keys(first), second);
  const Queries queries = plan.move(plan.queries(second), first);
  plan.step(4);
  for (const WorkerId w : {first, second}) plan.merge(plan.attend(plan.queries(w), plan.keys(w)));
  plan.merge(plan.attend(plan.queries(second).part(0), keys));
  const Partial helped = plan.attend(queries.part(1), plan.keys(first));
  plan.step(7);
  plan.merge(plan.move(helped, second));
}

std::string shown(Pass pass) {
  return step_table(build_plan(small_problem(2, 8, pass), {"test", "", "", halves, late}));
}

TEST(StepTable, ShowsMovesBeforeTheFirstAttendAndAfterTheLast) {
  EXPECT_THAT(shown(Pass::Forward), HasSubstr("\nmoves, before each step\n"
                                              "step 1  q1b:1>0 kv0:0>1\n"
                                              "step 7  o1b:0>1\n\n"));
}

TEST(StepTable, ShowsEachMoveUnderThePassItBelongsTo) {
  const std::string both = shown(Pass::Both);
  EXPECT_THAT(both, HasSubstr("step 7  o1b:0>1\n\nbackward attends\n"));
  EXPECT_THAT(both, HasSubstr("step 9  q1b:1>0 kv0:0>1 do1b:1>0\n"
                              "step 15  dq1b:0>1 dkv0:1>0\n\n"));
}

}  // namespace
}  // namespace ringsched
