// What the builder does for schedules, and what it refuses.
#include "ringsched/scheduler/builder.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"

namespace ringsched {
namespace {

Plan build(std::uint32_t workers, void (*schedule)(const Problem&, PlanBuilder&),
           Pass pass = Pass::Forward, Mask mask = Mask::causal()) {
  return build_plan(small_problem(workers, 4 * std::int64_t{workers}, pass, std::move(mask)),
                    {"test", "", "", contiguous, schedule});
}

std::map<ValueId, int> messages(const Plan& plan) {
  std::map<ValueId, int> count;
  for (const Task& t : plan.tasks)
    if (t.kind == TaskKind::Receive) ++count[plan.value(t)];
  return count;
}

constexpr WorkerId kFirst{0}, kSecond{1};

// What the author of a schedule is told about a call that cannot be planned.
std::string refusal(void (*schedule)(const Problem&, PlanBuilder&), Pass pass = Pass::Forward) {
  try {
    build(3, schedule, pass);
  } catch (const Error& e) {
    return e.what();
  }
  return "built";
}

TEST(Builder, RefusesToAttendAcrossWorkers) {
  EXPECT_EQ(
      refusal([](const Problem&, PlanBuilder& p) {
        p.step(7);
        p.attend(p.queries(kSecond), p.keys(kFirst));
      }),
      "schedule test, step 7: attend needs both operands on one worker, but the queries of "
      "worker 1 are on worker 1 and the keys of worker 0 on worker 0; move one of them first");
}

TEST(Builder, RefusesToMergeFarFromTheOwner) {
  for (const Pass pass : {Pass::Forward, Pass::Both})
    EXPECT_EQ(
        refusal(
            [](const Problem&, PlanBuilder& p) {
              p.step(2);
              p.merge(p.attend(p.move(p.queries(kSecond), kFirst), p.keys(kFirst)));
            },
            pass),
        "schedule test, step 2: merge needs the partial on the owner of its queries, worker 1, "
        "but it is on worker 0; move it first");
}

TEST(Builder, RefusesToUseAPartialTwice) {
  const auto twice = [](const Problem&, PlanBuilder& p) {
    p.step(4);
    const Partial partial = p.attend(p.queries(kSecond), p.keys(kSecond));
    p.merge(partial);
    p.merge(partial);
  };
  const auto moved = [](const Problem&, PlanBuilder& p) {
    const Partial partial = p.attend(p.queries(kSecond), p.keys(kSecond));
    p.move(partial, kFirst);
    p.merge(partial);
  };
  EXPECT_EQ(refusal(twice),
            "schedule test, step 4: a partial of the queries of worker 1 is used again: it was "
            "merged, or moved from worker 1, before");
  EXPECT_EQ(refusal(moved),
            "schedule test, step 0: a partial of the queries of worker 1 is used again: it was "
            "merged, or moved from worker 1, before");
}

TEST(Builder, AsksAScheduleOnce) {
  static int asked = 0;
  asked = 0;
  const auto count = [](const Problem& problem, PlanBuilder& p) {
    ++asked;
    for (std::uint32_t w = 0; w < problem.workers; ++w)
      p.merge(p.attend(p.queries({w}), p.keys({w})));
  };
  build(3, count, Pass::Both, Mask::documents({{4}, {4}, {4}}));
  EXPECT_EQ(asked, 1);
}

TEST(Builder, RefusesAPartThatTheLayoutDoesNotHave) {
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) { p.keys(kSecond).part(1); }),
            "schedule test, part(1) of the share of worker 1: it has 1 chunk, counted from 0; the "
            "layout in the registry decides how many");
}

void attend_after_moving_on(const Problem& problem, PlanBuilder& p) {
  for (std::uint32_t w = 0; w < problem.workers; ++w)
    p.merge(p.attend(p.queries({w}), p.keys({w})));
  p.step(1);
  p.merge(p.attend(p.queries(WorkerId{2}), p.move(p.keys(kSecond), WorkerId{2})));
  const Keys there = p.move(p.keys(kFirst), kSecond);
  p.step(2);
  const Keys further = p.move(there, WorkerId{2});
  p.merge(p.attend(p.queries(WorkerId{2}), further));
  p.step(3);
  p.merge(p.attend(p.queries(kSecond), there));
}

TEST(Builder, RefusesKeysThatAreAttendedAfterTheyWereMovedOnIfTheirGradientLeftWithThem) {
  for (const Pass pass : {Pass::Backward, Pass::Both})
    EXPECT_EQ(
        refusal(attend_after_moving_on, pass),
        "schedule test, step 3: worker 1 attends the keys of worker 0 after it moved them on, "
        "when their gradient has left with them; attend first, then move (or plan --pass "
        "forward)");
  EXPECT_TRUE(verify(build(3, attend_after_moving_on)).holds());
}

TEST(Builder, MovesNothingThatIsThereAlreadyOrIsNone) {
  const Plan plan = build(2, [](const Problem&, PlanBuilder& p) {
    p.merge(p.move(p.attend(p.queries(kFirst), p.move(p.keys(kFirst), kFirst)), kFirst));
    p.merge(p.move(Partial{}, kSecond));
    p.merge(p.attend(p.queries(kSecond), p.move(p.keys(kFirst), kSecond)));
    p.merge(p.attend(p.queries(kSecond), p.keys(kSecond)));
  });
  EXPECT_TRUE(verify(plan).holds());
  EXPECT_EQ(messages(plan)[attention::kKeyValue], 1);
}

TEST(Builder, PlansOnlyTheHopsThatLeadSomewhere) {
  // Keys of worker 0 pass through worker 1, which sees them hidden, to worker 2.
  const Plan plan = build(
      3,
      [](const Problem&, PlanBuilder& p) {
        const Keys through = p.move(p.keys(kFirst), kSecond);
        p.merge(p.attend(p.queries(kSecond), through));
        const Keys end = p.move(through, WorkerId{2});
        p.merge(p.attend(p.queries(WorkerId{2}), end));
        p.move(end, kFirst);
        for (const std::uint32_t w : {0u, 1u, 2u}) p.merge(p.attend(p.queries({w}), p.keys({w})));
      },
      Pass::Forward, Mask::documents({{4}, {4}, {4}}));
  EXPECT_TRUE(verify(plan).holds());
  EXPECT_THAT(messages(plan), testing::IsEmpty());
}

// A ring makes W * (W - 1) moves, of which a window of one token leaves none.
TEST(Builder, RefusesWhatIsTooLongAndSaysWhatItCounted) {
  const auto answer = [](const Mask& mask, std::uint64_t most_tasks) -> std::string {
    try {
      build_plan(small_problem(8, 64, Pass::Forward, mask), find_schedule("ring"), most_tasks);
    } catch (const Error& e) {
      return e.what();
    }
    return "built";
  };
  EXPECT_THAT(answer(Mask::full(), 200),
              testing::StartsWith("this plan needs more than 200 tasks"));
  EXPECT_EQ(answer(Mask::window({1}), 112), "built");
  EXPECT_EQ(answer(Mask::window({1}), 111),
            "this schedule needs more than 55 moves; use fewer workers");
}

TEST(Builder, GroupsWhatAWorkerPostsInOneStepWithoutComputing) {
  const Plan plan = build_plan(small_problem(8, 64), find_schedule("balanced"));
  std::map<std::tuple<std::uint32_t, Lane, Step>, int> groups;
  for (const Task& t : plan.tasks)
    if (is_transfer(t.kind) && !t.with_previous) ++groups[{t.worker_index, t.lane, t.step}];
  for (const auto& [where, count] : groups) EXPECT_EQ(count, 1);
}

TEST(Builder, EndsAGroupWhereItsWorkerComputes) {
  const Plan plan = build(2, [](const Problem&, PlanBuilder& p) {
    const Keys there = p.move(p.keys(kFirst), kSecond);
    p.merge(p.attend(p.queries(kSecond), there));
    const Queries away = p.move(p.queries(kSecond), kFirst);
    p.merge(p.move(p.attend(away, p.move(p.keys(kSecond), kFirst)), kSecond));
    p.merge(p.attend(p.queries(kFirst), p.keys(kFirst)));
  });
  EXPECT_TRUE(verify(plan).holds());
  std::vector<bool> joins;  // what the second worker posts on lane fetch: in, and later out, out
  for (const Task& t : plan.tasks)
    if (t.worker() == kSecond && t.lane == Lane::Fetch) joins.push_back(t.with_previous);
  EXPECT_THAT(joins, testing::ElementsAre(false, false, true));
}

TEST(Gradients, OfKeysTravelOnWithThemInARing) {
  const Plan plan = build_plan(small_problem(8, 64, Pass::Backward), find_schedule("ring"));
  auto count = messages(plan);
  EXPECT_EQ(count[attention::kKeyValue], 28);
  // As many: one less on the way, and one home.
  EXPECT_EQ(count[attention::kKeyValueGradient], 28);
  EXPECT_EQ(count[attention::kQueryGradient], 0);
}

TEST(Gradients, GoStraightHomeWhereKeysAreFetchedAndBackFromHelpers) {
  const Plan plan = build_plan(small_problem(8, 64, Pass::Backward), find_schedule("balanced"));
  auto count = messages(plan);
  EXPECT_EQ(count[attention::kKeyValue], 22);
  EXPECT_EQ(count[attention::kKeyValueGradient], 22);
  EXPECT_EQ(count[attention::kQuery], 6);
  EXPECT_EQ(count[attention::kPreparedGradient], 6);
  EXPECT_EQ(count[attention::kQueryGradient], 6);
  EXPECT_EQ(count[attention::kPartial], 0);
}

TEST(Gradients, ArePreparedFromTheForwardResultOrFromTheOneGiven) {
  for (const Pass pass : {Pass::Backward, Pass::Both}) {
    const Plan plan = build_plan(small_problem(4, 16, pass), find_schedule("zigzag"));
    int prepared = 0;
    for (const Task& t : plan.tasks)
      if (t.kind == TaskKind::Prepare) {
        ++prepared;
        EXPECT_EQ(plan.tensor(t.inputs[0]).value, attention::kPartial);
        EXPECT_EQ(plan.producer(t.inputs[0]).valid(), pass == Pass::Both);
      }
    EXPECT_EQ(prepared, 4);
  }
}

// All workers run what `inner` says, in two views, one after the other.
template <auto inner>
void in_two_views(const Problem& problem, PlanBuilder& plan) {
  std::vector<Keys> keys;
  for (std::uint32_t r = 0; r < problem.workers; ++r) keys.push_back(plan.keys(WorkerId{r}));
  const std::size_t half = keys.size() / 2;
  for (const auto part : {std::span(keys).first(half), std::span(keys).subspan(half)}) {
    PlanBuilder view = plan.view(part);
    inner(view.problem(), view);
  }
}

// Rings of the first and of the second half of the workers, said step by step.
void two_rings(const Problem& problem, PlanBuilder& plan) {
  const std::uint32_t half = problem.workers / 2;
  std::vector<Keys> visiting;
  for (std::uint32_t r = 0; r < problem.workers; ++r) visiting.push_back(plan.keys(WorkerId{r}));
  for (Step s = 0; s < half; ++s) {
    plan.step(s);
    const std::vector<Keys> before = visiting;
    for (const std::uint32_t first : {0u, half}) {
      for (std::uint32_t r = 0; r < half && s > 0; ++r) {
        const std::uint32_t to = first + (r + 1) % half;
        visiting[to] = plan.move(before[first + r], WorkerId{to});
      }
      for (std::uint32_t r = first; r < first + half; ++r)
        plan.merge(plan.attend(plan.queries(WorkerId{r}), visiting[r]));
    }
  }
}

void ring_of_all(const Problem& problem, PlanBuilder& plan) {
  const Schedule& s = find_schedule("ring");
  s.build(problem, plan, s.arguments);
}

void helpers_of_all(const Problem& problem, PlanBuilder& plan) {
  const Schedule& s = find_schedule("balanced");
  s.build(problem, plan, s.arguments);
}

TEST(View, OfHalfTheWorkersRunsAScheduleThatKnowsNothingOfTheOthers) {
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
    const Mask halves = Mask::documents({{16}, {16}});
    const Plan plan = build(8, in_two_views<ring_of_all>, pass, halves);
    EXPECT_EQ(write_plan(plan), write_plan(build(8, two_rings, pass, halves)));
    EXPECT_TRUE(verify(plan).holds());
    EXPECT_EQ(interpret(plan, 1), "");
  }
}

TEST(View, HelpersFindEachOtherByTheNumbersOfTheView) {
  for (const Pass pass : {Pass::Forward, Pass::Both}) {
    const Plan plan = build(10, in_two_views<helpers_of_all>, pass, Mask::documents({{20}, {20}}));
    const Verification v = verify(plan);
    ASSERT_TRUE(v.holds()) << v.violations[0].text;
    EXPECT_EQ(interpret(plan, 1), "");
    for (const Task& t : plan.tasks)
      if (t.kind == TaskKind::Send) {
        EXPECT_EQ(t.worker_index / 5, plan.tasks[t.peer.value].worker_index / 5);
      }
  }
}

TEST(View, OfOneWorkerAttendsWhatItIsGiven) {
  const Plan plan = build(2, [](const Problem&, PlanBuilder& p) {
    p.merge(p.attend(p.queries(kFirst), p.keys(kFirst)));
    p.merge(p.attend(p.queries(kSecond), p.keys(kSecond)));
    p.step(3);
    const Keys there = p.move(p.keys(kFirst), kSecond);
    PlanBuilder view = p.view({{there}});
    EXPECT_EQ(view.problem().workers, 1u);
    view.step(2);
    view.merge(view.attend(view.queries(kFirst), view.keys(kFirst)));
  });
  EXPECT_TRUE(verify(plan).holds());
  const auto merge =
      std::ranges::find_if(plan.tasks, [](const Task& t) { return t.kind == TaskKind::Merge; });
  ASSERT_NE(merge, plan.tasks.end());
  EXPECT_EQ(merge->worker(), kSecond);
  EXPECT_EQ(merge->step, 5u);
}

TEST(Builder, RefusesWorkersThatAreNotThere) {
  const auto in_view = [](const Problem&, PlanBuilder& p) {
    const std::vector<Keys> keys = {p.keys(kSecond)};
    p.view(keys).queries(kSecond);
  };
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) { p.keys(WorkerId{3}); }),
            "schedule test, step 0: there is no worker 3; the plan has workers 0 to 2");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              p.step(1);
              p.move(p.queries(kFirst), WorkerId{70000});
            }),
            "schedule test, step 1: there is no worker 70000; the plan has workers 0 to 2");
  EXPECT_EQ(refusal(in_view),
            "schedule test, step 0: there is no worker 1; this view has workers 0 to 0");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              const std::vector<Keys> keys = {p.keys(kSecond), p.keys(kSecond)};
              p.view(keys);
            }),
            "schedule test, step 0: two workers of a view are both worker 1");
}

TEST(View, NeedsKeys) {
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) { p.view({}); }),
            "schedule test, step 0: a view has no workers");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              const std::vector<Keys> keys = {p.keys(kFirst), {}};
              p.view(keys);
            }),
            "schedule test, step 0: worker 1 of a view has no keys");
}

TEST(Timing, RefusesWhatIsUsedTooEarlyOrNeededTooLate) {
  EXPECT_EQ(
      refusal([](const Problem&, PlanBuilder& p) {
        p.step(4);
        p.move(p.keys(kFirst), kSecond, {.needed = 3});
      }),
      "schedule test, step 4: the keys of worker 0 must be on worker 1 in step 3, which is over");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              const Keys later = p.move(p.keys(kFirst), kSecond, {.needed = 3});
              p.step(2);
              p.attend(p.queries(kSecond), later);
            }),
            "schedule test, step 2: worker 1 attends what arrives only for step 3");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              const Keys later = p.move(p.keys(kFirst), kSecond, {.needed = 3});
              p.move(later, WorkerId{2}, {.needed = 2});
            }),
            "schedule test, step 0: the keys of worker 0 must be on worker 2 in step 2, but are "
            "on worker 1 in step 3 only");
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              p.step(1);
              const Partial partial = p.attend(p.queries(kSecond), p.keys(kSecond));
              p.step(0);
              p.merge(partial);
            }),
            "schedule test, step 0: a partial of the queries of worker 1 is used before step 1 "
            "makes it");
}

TEST(Timing, RefusesLanesThatAreNotForOperandsAndANinthLane) {
  for (const Lane lane : {Lane::Compute, Lane::Return, Lane{7}}) try {
      PlanBuilder p(small_problem(3, 12), contiguous(3, {12}));
      p.move(p.keys(kFirst), kSecond, {.lane = lane});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()),
                fmt::format("step 0: queries and keys cannot move on lane {}; use fetch, or a lane "
                            "that the schedule made with lane(name)",
                            lane == Lane{7} ? "7" : kBasicLanes[static_cast<std::size_t>(lane)]));
    }
  EXPECT_EQ(refusal([](const Problem&, PlanBuilder& p) {
              for (const char* name : {"a", "b", "c", "d", "e"}) p.lane(name);
              EXPECT_EQ(p.lane("e"), Lane{7});
              p.lane("f");
            }),
            "schedule test, step 0: there are 9 lanes; 3 to 8 are allowed");
}

// Between nodes of four, keys needed from step 8 on may move while steps 4 to 7 attend.
TEST(Timing, ALaneThatAScheduleMadeHasAClockOfItsOwn) {
  const Problem p = small_problem(12, 48, Pass::Forward, Mask::full());
  const Plan plan = limit_communication(build_plan(p, find_schedule("double-ring:node=4")), {});
  ASSERT_THAT(plan.lanes, testing::ElementsAre("compute", "fetch", "return", "between nodes"));
  const auto waits_for = [&](std::uint32_t id) {
    std::vector<TaskId> out;
    for (const ControlEdge e : plan.controls)
      if (e.after == TaskId{id}) out.push_back(e.before);
    return out;
  };
  int hops = 0, waiting = 0;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.lane == Lane{3}) {
      ++hops;
      EXPECT_EQ(t.step % 4, 0u);
      const auto before = waits_for(id);
      EXPECT_EQ(before.empty(), t.step == 4 || t.with_previous) << id;
      for (const TaskId b : before) {
        EXPECT_EQ(plan.tasks[b.value].step, 3u);
        EXPECT_EQ(plan.tasks[b.value].lane, Lane::Compute);
      }
    } else if (t.lane == Lane::Compute) {
      for (const TaskId b : waits_for(id))
        if (plan.tasks[b.value].lane == Lane{3}) {
          ++waiting;
          EXPECT_GT(t.step, plan.tasks[b.value].step);
        }
    }
  }
  EXPECT_EQ(hops, 2 * 12 * 2);  // to the other two nodes, from 12 workers, both ends
  EXPECT_GT(waiting, 0);
}

// With one node, or one worker in each, it is the ring.
TEST(DoubleRing, IsARingWhereThereIsOneToBeMade) {
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const Mask& mask : {Mask::causal(), Mask::full()}) {
      const Problem p = small_problem(6, 48, pass, mask);
      for (const char* name : {"ring", "zigzag"}) {
        Plan ring = build_plan(p, find_schedule(name));
        ring.schedule.clear();
        for (const std::uint32_t node : {1u, 6u}) {
          Plan plan =
              build_plan(p, find_schedule(fmt::format("double-ring:node={}:ring={}", node, name)));
          plan.schedule.clear();
          for (Task& t : plan.tasks)
            if (t.lane == Lane{3}) t.lane = Lane::Fetch;
          plan.lanes.resize(3);
          EXPECT_EQ(write_plan(plan), write_plan(ring)) << node << " " << name;
        }
      }
    }
}

TEST(DoubleRing, HoldsForNodesOfAnySizeUnderEveryOverlap) {
  for (const std::uint32_t node : {2u, 3u, 4u, 6u})
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::window({20})})
        for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
          if (kSanitized && node != 3 && overlap != Overlap::Prefetch) continue;
          const Problem p = small_problem(12, 57, pass, mask);
          for (const char* ring : {"ring", "zigzag"}) {
            const Plan plan = limit_communication(
                build_plan(p,
                           find_schedule(fmt::format("double-ring:node={}:ring={}", node, ring))),
                {overlap, 0});
            const Verification v = verify(plan);
            ASSERT_TRUE(v.holds()) << v.violations[0].text;
            EXPECT_EQ(v.unread, 0u);
            EXPECT_EQ(interpret(plan, 1), "");
          }
        }
}

TEST(DoubleRing, RefusesNodesThatDoNotDivideTheWorkers) {
  try {
    build_plan(small_problem(6, 48), find_schedule("double-ring:node=4"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "double-ring: node=4 does not divide 6 workers; nodes must be of equal size");
  }
}

TEST(Plan, CountsBytesFromHeadsAndDtype) {
  Problem p;
  p.heads = 32;
  p.kv_heads = 8;
  p.head_dim = 128;
  p.dtype = Dtype::Bf16;
  const auto bytes = [&](ValueId kind) { return program_of(p).bytes(kind, {8192}).value; };
  EXPECT_EQ(bytes(attention::kQuery), 64 << 20);
  EXPECT_EQ(bytes(attention::kKeyValue), 32 << 20);
  EXPECT_EQ(bytes(attention::kPartial), 129 << 20);  // fp32, and a log-sum-exp per row and head
  EXPECT_EQ(bytes(attention::kOutputGradient), 64 << 20);
  EXPECT_EQ(bytes(attention::kPreparedGradient), 66 << 20);
  EXPECT_EQ(bytes(attention::kQueryGradient), 128 << 20);
  EXPECT_EQ(bytes(attention::kKeyValueGradient), 64 << 20);
}

}  // namespace
}  // namespace ringsched
