// Each cell is a sum with every term once: verify()'s messages if that is not so, and plans with
// several complete copies of one cell.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"
#include "support/term_surgery.hpp"

namespace ringsched {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

Plan built(std::string_view schedule, std::uint32_t workers, Pass pass = Pass::Both) {
  return build_plan(small_problem(workers, 4 * std::int64_t{workers}, pass),
                    find_schedule(schedule));
}

std::vector<std::string> found_in(const Plan& plan) {
  std::vector<std::string> out;
  for (const Violation& v : verify(plan, {.most = 100}).violations) out.push_back(v.text);
  return out;
}

// The attend_backward of these chunks.
TaskId backward(const Plan& plan, std::uint32_t query, std::uint32_t key) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.kind == TaskKind::AttendBackward &&
        plan.regions[plan.rows(t).value].first.value == query &&
        plan.regions[t.keys.value].first.value == key)
      return {id};
  }
  throw std::logic_error("the test names an attend that is not there");
}

void expect_holds(const Plan& plan, const std::string& what = "") {
  EXPECT_THAT(found_in(plan), ElementsAre()) << what;
  for (std::uint64_t seed = 0; seed < 3; ++seed) EXPECT_EQ(interpret(plan, seed), "") << what;
}

TEST(Terms, ABackwardPlanWithOneTermMissingIsRefused) {
  Plan plan = built("ring", 3);
  ASSERT_TRUE(leave_out_terms(plan, backward(plan, 2, 1)));
  EXPECT_NE(interpret(plan, 1), "");
  EXPECT_THAT(
      found_in(plan),
      ElementsAre(
          StartsWith("the query_gradient of query chunk 2 lacks key chunk 1; see task "),
          StartsWith("the key_value_gradient of key chunk 1 lacks query chunk 2; see task ")));
}

TEST(Terms, ABackwardPlanWithOneTermDoubledIsRefused) {
  Plan plan = built("ring", 3);
  const TaskId attend = backward(plan, 2, 1);
  double_terms(plan, attend);
  EXPECT_NE(interpret(plan, 1), "");
  const std::string both = fmt::format(" twice: by {} and by {}", name_of(plan, attend),
                                       name_of(plan, {attend.value + 1}));
  EXPECT_THAT(found_in(plan),
              ElementsAre("the query_gradient of query chunk 2 counts key chunk 1" + both,
                          "the key_value_gradient of key chunk 1 counts query chunk 2" + both));
}

// Two attends, each of some query heads; both add to gradients of the same key heads.
Plan two_attends(ColumnRange first, ColumnRange second) {
  Problem problem = small_problem(1, 4, Pass::Backward);
  problem.kv_heads = 1;
  Plan plan = build_plan(problem, find_schedule("ring"));
  const TaskId attend = find_task(plan, TaskKind::AttendBackward, 0), other{attend.value + 1};
  repeat_task(plan, attend);
  const TaskId output = find_task(plan, TaskKind::Output, 0);
  repeat_task(plan, output);
  plan.tasks[output.value + 1].inputs[0] = plan.output(other);
  for (const auto& [id, columns] :
       {std::pair(attend, first), {output, first}, {other, second}, {{output.value + 1}, second}}) {
    set_columns(plan, plan.tasks[id.value], columns);
    restate_work(plan, id);
  }
  const TaskId sum{output.value + 2};  // so far the output of the key gradient
  repeat_task(plan, sum);
  plan.tasks[sum.value].kind = TaskKind::Reduce;
  plan.tasks[sum.value].inputs = {plan.output(attend, 1), plan.output(other, 1), {}};
  plan.tasks[sum.value + 1].inputs[0] = plan.output(sum);
  restate_completion(plan);
  return plan;
}

TEST(Terms, ABackwardPlanWithAHeadRangeShiftedIsRefused) {
  expect_holds(two_attends({0, 2}, {2, 2}));
  const Plan plan = two_attends({0, 2}, {1, 2});
  EXPECT_NE(interpret(plan, 1), "");
  const std::vector<std::string> all = found_in(plan);
  EXPECT_THAT(all, Contains(EndsWith("both output the query_gradient of chunk 0, heads 1")));
  EXPECT_THAT(all, Contains("worker 0 does not output the query_gradient of chunk 0, heads 3"));
  EXPECT_THAT(all,
              Contains(StartsWith("the key_value_gradient of key chunk 0 counts query chunk 0, "
                                  "heads 1 twice: by task ")));
  EXPECT_THAT(all, Contains(StartsWith("the key_value_gradient of key chunk 0 lacks query chunk 0, "
                                       "heads 3; see task ")));
}

TEST(Terms, HeadsThatAreAddedAgainToAllOfThemAreRefused) {
  EXPECT_THAT(
      found_in(two_attends({0, 4}, {2, 2})),
      Contains(StartsWith("the key_value_gradient of key chunk 0 counts query chunk 0, heads "
                          "2-3 twice: by task ")));
}

TEST(Terms, APartialThatIsSentTwiceIsRefusedWithBothSends) {
  Plan plan = built("balanced", 4, Pass::Forward);
  const auto is_sent = [&](const Task& t) {
    return t.kind == TaskKind::Send && plan.value(t) == attention::kPartial;
  };
  const auto at = std::ranges::find_if(plan.tasks, is_sent) - plan.tasks.begin();
  const TaskId send{static_cast<std::uint32_t>(at)}, again{send.value + 1};
  repeat_task(plan, plan.tasks[send.value].peer);
  repeat_task(plan, send);
  const TaskId second{plan.tasks[send.value].peer.value + 1};
  plan.tasks[again.value].peer = second;
  plan.tasks[second.value].peer = again;
  EXPECT_THAT(
      found_in(plan),
      ElementsAre(fmt::format("{} and {} both use the partial of {}; it would count twice",
                              name_of(plan, send), name_of(plan, again),
                              name_of(plan, plan.producer(plan.tasks[send.value].inputs[0]))),
                  name_of(plan, second) + ": its result is neither merged nor output"));
}

TEST(Terms, ResultsMayBeComputedAgainForTheirGradients) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u})
    for (const Schedule& s : schedules_for(workers)) {
      Plan plan = built(s.name, workers);
      int copies = 0;
      for (std::uint32_t w = 0; w < workers; ++w)
        copies +=
            compute_again(plan, plan.tasks[find_task(plan, TaskKind::Prepare, w).value].inputs[0]);
      EXPECT_GT(copies, 0);
      expect_holds(plan, std::string(s.name));
    }
}

TEST(Terms, ACopyThatIsNotCompleteIsRefusedThoughAnotherIs) {
  Plan plan = built("ring", 3);
  const auto prepare = [&]() -> Task& {
    return plan.tasks[find_task(plan, TaskKind::Prepare, 2).value];
  };
  ASSERT_TRUE(compute_again(plan, prepare().inputs[0]));
  const TaskId sum = plan.producer(prepare().inputs[0]);
  prepare().inputs[0] = plan.tasks[sum.value].inputs[0];
  erase_task(plan, plan.producer(plan.tasks[sum.value].inputs[1]));
  erase_task(plan, {sum.value - 1});
  restate_completion(plan);
  EXPECT_NE(interpret(plan, 1), "");
  EXPECT_THAT(found_in(plan),
              ElementsAre(StartsWith("the result of query chunk 2 lacks key chunk 0; see task ")));
}

TEST(Terms, ResultsMayBeSentAndPreparedElsewhere) {
  Plan plan = built("balanced", 5);
  int moved = 0;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Send &&
        plan.value(plan.tasks[id]) == attention::kPreparedGradient) {
      prepare_at_receiver(plan, {id});
      ++moved;
    }
  EXPECT_GT(moved, 2);
  expect_holds(plan);
}

TEST(Terms, WholeGradientsMayBeComputedTwice) {
  Plan plan = built("ring", 1, Pass::Backward);
  const TaskId attend = find_task(plan, TaskKind::AttendBackward, 0);
  repeat_task(plan, attend);
  expect_holds(plan);
  EXPECT_EQ(verify(plan).unread, 0u);  // which counts messages only
  const TaskId output = find_task(plan, TaskKind::Output, 0, 1);
  plan.tasks[output.value].inputs[0] = plan.output({attend.value + 1}, 1);
  expect_holds(plan);
  repeat_task(plan, output);
  EXPECT_THAT(found_in(plan),
              ElementsAre(EndsWith("both output the key_value_gradient of chunk 0")));
}

TEST(Terms, OnlyPartialTensorsAreAddedAndOnlyWhole) {
  Plan plan = built("ring", 2);
  const TaskId merge = find_task(plan, TaskKind::Merge, 1);
  repeat_task(plan, merge);
  plan.tasks[merge.value + 1].inputs[0] = plan.output(merge);
  EXPECT_THAT(found_in(plan),
              Contains(EndsWith("input 0 is already complete; adding to it would count twice")));
}

}  // namespace
}  // namespace ringsched
