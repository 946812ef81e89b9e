// The order in which a schedule makes its calls, and what the plan makes of that.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_tables.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"

namespace ringsched {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr WorkerId kWorker0{0}, kWorker1{1}, kWorker2{2}, kWorker3{3};

Plan plan_of_calls(std::uint32_t workers, void (*schedule)(const Problem&, PlanBuilder&),
                   Pass pass = Pass::Forward, Mask mask = Mask::causal()) {
  return build_plan(small_problem(workers, 4 * std::int64_t{workers}, pass, std::move(mask)),
                    {"test", "", "", contiguous, schedule});
}

std::string refusal_of_calls(std::uint32_t workers, void (*schedule)(const Problem&, PlanBuilder&),
                             Pass pass = Pass::Forward) {
  try {
    plan_of_calls(workers, schedule, pass);
  } catch (const Error& e) {
    return e.what();
  }
  return "built";
}

void expect_valid(const Plan& plan) {
  const Verification v = verify(plan);
  EXPECT_TRUE(v.holds()) << v.violations[0].text;
  EXPECT_EQ(interpret(plan, 1), "");
}

// The steps of the tasks of a kind and a value.
std::vector<Step> steps_of(const Plan& plan, TaskKind kind, ValueId value) {
  std::vector<Step> out;
  for (const Task& t : plan.tasks)
    if (t.kind == kind && plan.value(t) == value) out.push_back(t.step);
  return out;
}

TEST(Calls, AMergeStandsWhereItIsSaidThoughItsAttendCameEarlier) {
  const Plan plan = plan_of_calls(2, [](const Problem&, PlanBuilder& p) {
    const Partial own = p.attend(p.queries(kWorker1), p.keys(kWorker1));
    const Partial other = p.attend(p.queries(kWorker1), p.move(p.keys(kWorker0), kWorker1));
    p.merge(p.attend(p.queries(kWorker0), p.keys(kWorker0)));
    p.merge(other);
    p.merge(own);
  });
  expect_valid(plan);
  std::vector<TaskKind> kinds;
  for (const Task& t : plan.tasks) kinds.push_back(t.kind);
  EXPECT_THAT(kinds,
              ElementsAre(TaskKind::Attend, TaskKind::Send, TaskKind::Receive, TaskKind::Attend,
                          TaskKind::Attend, TaskKind::Merge, TaskKind::Output, TaskKind::Output));
  EXPECT_EQ(plan.tasks[5].inputs[0], plan.output({3}));
  EXPECT_EQ(plan.tasks[5].inputs[1], plan.output({0}));
}

TEST(Calls, AMergeThatAViewSaysBelongsToTheStepOfTheView) {
  const Plan plan = plan_of_calls(2, [](const Problem&, PlanBuilder& p) {
    p.merge(p.attend(p.queries(kWorker0), p.keys(kWorker0)));
    p.merge(p.attend(p.queries(kWorker1), p.keys(kWorker1)));
    const Keys there = p.move(p.keys(kWorker0), kWorker1);
    PlanBuilder view = p.view({{p.keys(kWorker0), p.keys(kWorker1)}});
    view.step(3);
    view.merge(p.attend(p.queries(kWorker1), there));
  });
  expect_valid(plan);
  EXPECT_THAT(steps_of(plan, TaskKind::Attend, attention::kPartial), ElementsAre(0, 0, 0));
  EXPECT_THAT(steps_of(plan, TaskKind::Merge, attention::kPartial), ElementsAre(3));
}

TEST(Calls, StepsOfAViewCountFromTheStepThatItIsMadeIn) {
  const Plan plan = plan_of_calls(2, [](const Problem&, PlanBuilder& p) {
    p.merge(p.attend(p.queries(kWorker0), p.keys(kWorker0)));
    p.step(2);
    PlanBuilder view = p.view({{p.keys(kWorker0), p.keys(kWorker1)}});
    view.merge(view.attend(view.queries(kWorker1), view.keys(kWorker1)));
    const Keys there = view.move(view.keys(kWorker0), kWorker1, {.needed = 1});
    view.step(4);
    view.merge(view.attend(view.queries(kWorker1), there));
  });
  expect_valid(plan);
  EXPECT_THAT(steps_of(plan, TaskKind::Attend, attention::kPartial), ElementsAre(0, 2, 6));
  EXPECT_THAT(steps_of(plan, TaskKind::Send, attention::kKeyValue), ElementsAre(3));
}

TEST(Calls, NothingIsUsedBeforeTheStepThatItIsMovedFor) {
  EXPECT_EQ(refusal_of_calls(2,
                             [](const Problem&, PlanBuilder& p) {
                               const Queries away =
                                   p.move(p.queries(kWorker1), kWorker0, {.needed = 2});
                               p.attend(away, p.keys(kWorker0));
                             }),
            "schedule test, step 0: worker 0 attends what arrives only for step 2");
  EXPECT_EQ(refusal_of_calls(2,
                             [](const Problem&, PlanBuilder& p) {
                               const Queries away = p.move(p.queries(kWorker1), kWorker0);
                               const Partial there = p.attend(away, p.keys(kWorker0));
                               p.step(2);
                               const Partial home = p.move(there, kWorker1);
                               p.step(1);
                               p.merge(home);
                             }),
            "schedule test, step 1: a partial of the queries of worker 1 is used before step 2 "
            "makes it");
}

TEST(Calls, AWorkerThatAttendsNothingHasNoResult) {
  const Plan plan = plan_of_calls(
      2,
      [](const Problem&, PlanBuilder& p) {
        p.lane("spare");
        p.merge(p.attend(p.queries(kWorker0), p.keys(kWorker0)));
      },
      Pass::Both);
  for (const Task& t : plan.tasks) EXPECT_EQ(t.worker(), kWorker0);
  EXPECT_EQ(plan.lanes.size(), 3u);  // nothing moves on the other
}

// A view numbers worker 2 as 0 and worker 1 as 1.
PlanBuilder view_of_two(PlanBuilder& p) { return p.view({{p.keys(kWorker2), p.keys(kWorker1)}}); }

TEST(Calls, MistakesInAViewNameTheTrueWorkers) {
  EXPECT_EQ(refusal_of_calls(3,
                             [](const Problem&, PlanBuilder& p) {
                               PlanBuilder view = view_of_two(p);
                               view.attend(view.queries(kWorker0), view.keys(kWorker1));
                             }),
            "schedule test, step 0: attend needs both operands on one worker, but the queries of "
            "worker 2 are on worker 2 and the keys of worker 1 on worker 1; move one of them "
            "first");
  EXPECT_EQ(refusal_of_calls(3,
                             [](const Problem&, PlanBuilder& p) {
                               PlanBuilder view = view_of_two(p);
                               view.step(4);
                               view.move(view.keys(kWorker0), kWorker1, {.needed = 3});
                             }),
            "schedule test, step 4: the keys of worker 2 must be on worker 1 in step 3, which is "
            "over");
  EXPECT_EQ(refusal_of_calls(3,
                             [](const Problem&, PlanBuilder& p) {
                               PlanBuilder view = view_of_two(p);
                               const Keys later =
                                   view.move(view.keys(kWorker1), kWorker0, {.needed = 3});
                               view.attend(view.queries(kWorker0), later);
                             }),
            "schedule test, step 0: worker 2 attends what arrives only for step 3");
  EXPECT_EQ(refusal_of_calls(3,
                             [](const Problem&, PlanBuilder& p) {
                               PlanBuilder view = view_of_two(p);
                               const Queries away = view.move(view.queries(kWorker0), kWorker1);
                               view.merge(view.attend(away, view.keys(kWorker1)));
                             }),
            "schedule test, step 0: merge needs the partial on the owner of its queries, worker 2, "
            "but it is on worker 1; move it first");
}

// The parts of a share that one worker reads, the last first.
TEST(Calls, AMoveBringsAllThatIsReadInAnyOrder) {
  const auto parts = [](const Problem&, PlanBuilder& p) {
    const Keys there = p.move(p.keys(kWorker0), kWorker1);
    for (const std::uint32_t part : {1u, 0u})
      p.merge(p.attend(p.queries(kWorker1), there.part(part)));
    p.merge(p.attend(p.queries(kWorker1), p.keys(kWorker1)));
    p.merge(p.attend(p.queries(kWorker0), p.keys(kWorker0)));
    p.merge(p.attend(p.queries(kWorker0), p.move(p.keys(kWorker1), kWorker0)));
  };
  for (const Pass pass : {Pass::Forward, Pass::Both})
    expect_valid(
        build_plan(small_problem(2, 8, pass, Mask::full()), {"test", "", "", zigzag, parts}));
}

// Worker 1 hands the keys of worker 0 on twice: to worker 3 (the first call, and the last move) and
// to worker 2. It attends them in between.
void hand_on_twice(const Problem& problem, PlanBuilder& p) {
  for (std::uint32_t q = 0; q < problem.workers; ++q)
    for (std::uint32_t k = q == 0 ? 0 : 1; k <= q; ++k)
      p.merge(p.attend(p.queries({q}), p.move(p.keys({k}), {q})));
  const Keys there = p.move(p.keys(kWorker0), kWorker1);
  const Keys last = p.move(there, kWorker3, {.needed = 5});
  const Keys first = p.move(there, kWorker2, {.needed = 1});
  p.step(1);
  p.merge(p.attend(p.queries(kWorker2), first));
  p.step(3);
  p.merge(p.attend(p.queries(kWorker1), there));
  p.step(5);
  p.merge(p.attend(p.queries(kWorker3), last));
}

TEST(Calls, AKeyGradientLeavesWithTheLastCopyInTimeAndNotInOrderOfCalls) {
  for (const Pass pass : {Pass::Backward, Pass::Both})
    expect_valid(plan_of_calls(4, hand_on_twice, pass));
}

TEST(Calls, KeysThatAreAttendedRightAfterTheyWereMovedOnAreRefused) {
  const auto attend_next = [](const Problem& problem, PlanBuilder& p) {
    for (std::uint32_t w = 0; w < problem.workers; ++w)
      p.merge(p.attend(p.queries({w}), p.keys({w})));
    p.merge(p.attend(p.queries(kWorker2), p.move(p.keys(kWorker1), kWorker2)));
    const Keys there = p.move(p.keys(kWorker0), kWorker1);
    p.step(1);
    const Keys further = p.move(there, kWorker2);
    p.merge(p.attend(p.queries(kWorker1), there));
    p.merge(p.attend(p.queries(kWorker2), further));
  };
  expect_valid(plan_of_calls(3, attend_next));
  EXPECT_THAT(refusal_of_calls(3, attend_next, Pass::Backward),
              StartsWith("schedule test, step 1: worker 1 attends the keys of worker 0 after it "
                         "moved them on"));
}

TEST(Calls, AKeyGradientGoesHomeInTheNextStepEvenIfNothingElseIsSaidInIt) {
  const Plan plan = plan_of_calls(
      2,
      [](const Problem&, PlanBuilder& p) {
        p.merge(p.attend(p.queries(kWorker1), p.move(p.keys(kWorker0), kWorker1)));
        p.step(1);
        p.step(2);
        for (const WorkerId w : {kWorker0, kWorker1}) p.merge(p.attend(p.queries(w), p.keys(w)));
      },
      Pass::Backward);
  expect_valid(plan);
  EXPECT_THAT(steps_of(plan, TaskKind::Send, attention::kKeyValueGradient), ElementsAre(1));
}

// Queries go to all keys that they see, and the results back.
void only_queries_move(const Problem& problem, PlanBuilder& p) {
  for (std::uint32_t q = 0; q < problem.workers; ++q)
    for (std::uint32_t k = 0; k < problem.workers; ++k)
      p.merge(p.move(p.attend(p.move(p.queries({q}), {k}), p.keys({k})), {q}));
}

// The builder refuses before it takes the memory, so it must not count fewer than it would write.
TEST(Calls, NoPlanHasMoreTasksThanTheBuilderIsAllowed) {
  std::vector<Schedule> all = schedules_for(33);
  all.push_back({"only queries move", "", "", contiguous, only_queries_move});
  for (const Schedule& s : all)
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const Mask& mask : {Mask::causal(), Mask::full()}) {
        const Problem p = small_problem(33, 132, pass, mask);
        const std::uint64_t tasks = build_plan(p, s).tasks.size();
        EXPECT_THROW(build_plan(p, s, tasks - 1), Error) << s.name << ", " << to_text(pass);
      }
}

TEST(PlanTables, KnowAllTheyHaveHoweverMuchThatIs) {
  Plan plan;
  PlanTables tables(plan);
  for (int time = 0; time < 2; ++time)
    for (std::uint32_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(tables.id(Region{{i / 2}, 1 + i % 2}), RegionId{i});
      ASSERT_EQ(tables.id(Piece{{i % 5}, {i / 5}, {0, 1}}), PieceId{i});
      ASSERT_EQ(tables.id(Work{.rows = i, .pairs = {}, .bytes = {}}), WorkId{i});
    }
  EXPECT_EQ(plan.pieces.size(), 1000u);
}

TEST(PlanTables, FindTheFirstOfEquals) {
  Plan plan;
  plan.regions = {{{4}, 1}, {{2}, 1}, {{4}, 1}, {{2}, 1}};
  PlanTables tables(plan);
  EXPECT_EQ(tables.id(Region{{4}, 1}), RegionId{0});
  EXPECT_EQ(tables.id(Region{{2}, 1}), RegionId{1});
  EXPECT_EQ(tables.id(Region{{3}, 1}), RegionId{4});
}

}  // namespace
}  // namespace ringsched
