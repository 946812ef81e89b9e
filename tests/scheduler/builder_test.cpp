// What the builder does for schedules, and what it does not let them do.
#include "ringsched/scheduler/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ringsched/scheduler/error.hpp"
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
  EXPECT_EQ(answer(Mask::window({1}), 120), "built");
  EXPECT_EQ(answer(Mask::window({1}), 100),
            "this schedule needs more than 50 moves; use fewer workers");
}

TEST(Builder, GroupsWhatAWorkerPostsInOneStepWithoutComputing) {
  const Plan plan = build_plan(small_problem(8, 64), find_schedule("balanced"));
  std::map<std::tuple<std::uint32_t, Lane, Step>, int> groups;
  for (const Task& t : plan.tasks)
    if (is_transfer(t.kind) && !t.with_previous) ++groups[{t.worker_index, t.lane, t.step}];
  for (const auto& [where, count] : groups) EXPECT_EQ(count, 1);
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

// Rings inside nodes of four, and one ring of nodes around them: keys go round their node, and
// meanwhile what each worker had at the start of the lap goes to the same place of the next node.
void double_ring(const Problem& problem, PlanBuilder& plan) {
  constexpr std::uint32_t size = 4;
  const std::uint32_t workers = problem.workers, nodes = workers / size;
  std::vector<Keys> lap_start(workers);
  for (std::uint32_t r = 0; r < workers; ++r) lap_start[r] = plan.keys(WorkerId{r});
  for (std::uint32_t lap = 0; lap < nodes; ++lap) {
    std::vector<Keys> visiting = lap_start;
    for (std::uint32_t hop = 0; hop < size; ++hop) {
      plan.step(lap * size + hop);
      std::vector<Keys> next(workers);
      for (std::uint32_t r = 0; r < workers && hop > 0; ++r) {
        const std::uint32_t to = r / size * size + (r + 1) % size;
        next[to] = plan.move(visiting[r], WorkerId{to});
      }
      if (hop > 0) visiting = next;
      for (std::uint32_t r = 0; r < workers && hop == 0 && lap > 0; ++r) {
        const std::uint32_t to = (r + size) % workers;
        next[to] = plan.move(lap_start[r], WorkerId{to});
      }
      if (hop == 0 && lap > 0) visiting = lap_start = next;
      for (std::uint32_t r = 0; r < workers; ++r)
        plan.merge(plan.attend(plan.queries(WorkerId{r}), visiting[r]));
    }
  }
}

TEST(NextSchedules, ADoubleRingNeedsNothingNew) {
  for (const Pass pass : {Pass::Forward, Pass::Both})
    for (const Mask& mask : {Mask::causal(), Mask::full()})
      for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
        const Plan plan = limit_communication(build(12, double_ring, pass, mask), {overlap, 0});
        const Verification v = verify(plan);
        ASSERT_TRUE(v.holds()) << v.violations[0].text;
        EXPECT_EQ(v.unread, 0u);
        EXPECT_EQ(interpret(plan, 1), "");
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
