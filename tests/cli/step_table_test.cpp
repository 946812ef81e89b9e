// How `plan` shows steps and moves, for schedules that the program does not have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_summary.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "text.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

TEST(StepTable, DoesNotTakeQueriesKeptFromTheForwardPassForHelp) {
  const Plan plan = build_plan(small_problem(2, 8, Pass::Backward), find_schedule("ulysses"));
  EXPECT_THAT(step_table(plan), Not(HasSubstr("the worker helps")));
  const PlanSummary s = summarise(plan);
  EXPECT_EQ(kept_line(plan, s), "queries (512 B), keys and values (512 B)");
  const Plan both = build_plan(small_problem(2, 8, Pass::Both), find_schedule("ulysses"));
  EXPECT_EQ(kept_line(both, summarise(both)), "");
}

Plan ulysses_of_three() { return ulysses_by_hand(small_problem(3, 9, Pass::Both)); }

TEST(StepTable, ShowsExchangesAndTheHeadsOfAttends) {
  const std::string text = step_table(ulysses_of_three());
  EXPECT_THAT(text, HasSubstr("     0  q0-2 k0-2 h0\n     1  q0-2 k0-2 h1\n"
                              "     2  q0-2 k0-2 h2-3\n"));
  EXPECT_THAT(text, HasSubstr("\nmoves, before each step\n"
                              "step 0  all-to-all of q among 0-2\n"
                              "        all-to-all of kv among 0-2\n"));
  EXPECT_THAT(text, HasSubstr("\nstep 1  all-to-all of o among 0-2\n"));
  EXPECT_THAT(text, HasSubstr("\nh0-7     with query heads 0 to 7\n"));
  EXPECT_THAT(text,
              HasSubstr("\n0-3 | 4-7  one exchange among workers 0 to 3, one among 4 to 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("kv1:2>3"))) << "there is no message";
  EXPECT_THAT(text, Not(HasSubstr("*"))) << "nobody helps";
}

TEST(StepTable, NamesTheWorkersOfGroupsThatAreNoNeighbours) {
  const auto table = [](std::uint32_t workers) {
    return step_table(build_plan(small_problem(workers, 2 * std::int64_t{workers}),
                                 find_schedule("usp:ulysses=4:consecutive=ring")));
  };
  EXPECT_THAT(table(8), HasSubstr("\n     3  q1-7/2 k1-7/2 h1  q1-7/2 k0-6/2 h1"));
  EXPECT_THAT(table(8), HasSubstr("\nq0-6/2   queries of workers 0, 2, 4 and 6; q0+4: "));
  EXPECT_THAT(table(4), Not(HasSubstr("q0-6/2"))) << "its only group is of neighbours";
}

TEST(PlanSummary, CountsWhatExchangesMoveBetweenWorkers) {
  const Plan plan = ulysses_of_three();
  const PlanSummary s = summarise(plan);
  EXPECT_THAT(tasks_line(s), HasSubstr("6 exchanges (18 tasks, one per member)"));
  EXPECT_THAT(tasks_line(s), HasSubstr("6 roundings"));
  // Of 9 rows and 4 heads of 8 bf16 numbers, each worker has a third already.
  const std::int64_t of_queries = 2 * 9 * 4 * 8 * 2 / 3;
  EXPECT_THAT(moves_line(plan, s),
              StartsWith(fmt::format("1 all-to-all of queries ({})", human(Bytes{of_queries}))));
  EXPECT_EQ(all_moved(s)[attention::kQuery.value], Bytes{of_queries});
  EXPECT_EQ(all_moved(s)[attention::kRoundedPartial.value], Bytes{of_queries});
  EXPECT_EQ(all_moved(s)[attention::kPartial.value], Bytes{0});
  // Key/value head 0 goes to workers 0 and 1, head 1 to worker 2: each lacks 6 of its 9 rows.
  EXPECT_EQ(all_moved(s)[attention::kKeyValue.value], Bytes{3 * 6 * 8 * 2 * 2});
  EXPECT_EQ(s.moved[attention::kQuery.value], Bytes{0}) << "no message does";
}

}  // namespace
}  // namespace ringsched
