// Properties of every schedule. A new schedule needs one row here: its time in the block model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/block_model.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"

namespace ringsched {
namespace {

class EverySchedule : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, EverySchedule, testing::ValuesIn(all_schedules(kSanitized ? 9 : 64)),
                         [](const auto& c) { return c.param.name(); });

class EverySmallSchedule : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, EverySmallSchedule,
                         testing::ValuesIn(all_schedules(kSanitized ? 5 : 9)),
                         [](const auto& c) { return c.param.name(); });

std::vector<Mask> masks(std::int64_t tokens) {
  std::vector<Mask> all = {Mask::causal(), Mask::full(), Mask::window({tokens / 3 + 1}),
                           Mask::prefix_window({tokens / 5}, {tokens / 4 + 1})};
  for (const std::int64_t window : {std::int64_t{0}, tokens / 6 + 1})
    if (tokens >= 4)
      all.push_back(Mask::documents(
          {{tokens / 4}, {tokens / 4 + 1}, {tokens - 2 * (tokens / 4) - 1}}, {window}));
  return all;
}

TEST_P(EverySchedule, VerifiesForAllPassesMasksHeadRatiosAndUnevenTokenCounts) {
  const auto [schedule, w] = GetParam();
  std::vector<std::int64_t> token_counts = {2 * std::int64_t{w} + w / 2};
  if (w <= 33)
    token_counts.insert(token_counts.end(), {std::int64_t{w}, 37 * std::int64_t{w} + w - 1});
  for (const std::int64_t tokens : token_counts)
    for (const Mask& mask : masks(tokens))
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
        Problem p = small_problem(w, tokens, pass, mask);
        p.kv_heads = std::array{1u, 2u, 4u}[static_cast<std::size_t>(tokens) % 3];
        const Verification v = verify(build_plan(p, *schedule));
        ASSERT_TRUE(v.holds()) << tokens << " tokens, " << to_text(mask) << ", " << to_text(pass)
                               << ": " << v.violations[0].text;
        ASSERT_EQ(v.unread, 0u) << "it moves what nobody reads: " << tokens << " tokens, "
                                << to_text(mask) << ", " << to_text(pass);
      }
}

// The plan with as few receive buffers as its schedule works with: 1, or else 2, 4, 8 ...
Plan with_few_buffers(const Plan& plan, Overlap overlap) {
  for (std::uint32_t buffers = 1;; buffers *= 2) {
    try {
      return limit_communication(plan, {overlap, buffers});
    } catch (const Error&) {
      if (buffers > plan.tasks.size()) throw;
    }
  }
}

TEST_P(EverySchedule, VerifiesUnderEveryOverlapAndWithFewBuffers) {
  const auto [schedule, w] = GetParam();
  for (const Pass pass : {Pass::Forward, Pass::Both}) {
    const Plan plan = build_plan(small_problem(w, 3 * std::int64_t{w} + 1, pass), *schedule);
    for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded})
      for (const bool few : {false, true}) {
        const Verification v =
            verify(few ? with_few_buffers(plan, overlap) : limit_communication(plan, {overlap, 0}));
        ASSERT_TRUE(v.holds()) << to_text(overlap) << (few ? ", few buffers, " : ", ")
                               << to_text(pass) << ": " << v.violations[0].text;
      }
  }
}

// The verifier's second opinion: pair by pair, on real sets.
TEST_P(EverySmallSchedule, ComputesEachVisiblePairOnceWhenInterpretedNaively) {
  const auto [schedule, w] = GetParam();
  for (const std::int64_t tokens : {std::int64_t{w}, 2 * std::int64_t{w} + w / 2 + 1})
    for (const Mask& mask : masks(tokens))
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
        for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
          const Plan plan = with_few_buffers(
              build_plan(small_problem(w, tokens, pass, mask), *schedule), overlap);
          ASSERT_EQ(interpret(plan, w), "") << tokens << " tokens, " << to_text(mask) << ", "
                                            << to_text(pass) << ", " << to_text(overlap);
        }
}

TEST_P(EverySchedule, NumbersTasksAndStepsInProgramOrder) {
  const auto [schedule, w] = GetParam();
  const Plan plan = build_plan(small_problem(w, 4 * std::int64_t{w}, Pass::Both), *schedule);
  for (std::uint32_t id = 1; id < plan.tasks.size(); ++id)
    ASSERT_LE(plan.tasks[id - 1].step, plan.tasks[id].step) << "task " << id;
}

struct Expectation {
  std::string_view schedule;
  // The makespan for W workers when a diagonal block costs d.
  double (*time)(double w, double d);
};

const Expectation kBlockTimes[] = {
    {"ring", [](double w, double d) { return w - 1 + d; }},
    {"striped", [](double w, double d) { return w * d; }},
    {"zigzag", [](double w, double d) { return (w - 1) / 2 + d; }},
    {"balanced", [](double w, double d) { return std::floor(w / 2) + d; }},
    {"balanced-split", [](double w, double d) { return (w - 1) / 2 + d; }},
    {"double-ring", [](double w, double d) { return w - 1 + d; }},
    // With 4 heads: the most that any worker has.
    {"ulysses", [](double w, double d) { return w * w * d * std::ceil(4 / w) / 4; }},
    {"all-gather", [](double w, double d) { return w - 1 + d; }},
    {"usp",
     [](double w, double d) {
       const double u = std::fmod(w, 4) == 0 ? 4 : std::fmod(w, 2) == 0 ? 2 : 1;  // of 4 heads
       return u * (w / u - 1 + d);
     }},
    // New schedules above this line.
};

TEST(BlockModel, GivesTheTimesOfThePapers) {
  for (const Expectation& e : kBlockTimes)
    for (std::uint32_t w = 1; w <= 33; ++w)
      for (const double d : {0.5, 1.0, 0.375}) {
        if (e.schedule == "ulysses" && w > 4) continue;
        const Plan plan =
            build_plan(small_problem(w, 8 * std::int64_t{w}), find_schedule(e.schedule));
        EXPECT_DOUBLE_EQ(block_model(plan, d).makespan, e.time(w, d))
            << e.schedule << " W=" << w << " d=" << d;
      }
}

// As one zigzag ring takes: (W - 1) / 2 + d.
TEST(BlockModel, BalancesDoubleRingsOfZigzag) {
  for (const std::uint32_t w : {8u, 12u, 16u, 24u})
    for (const double d : {0.5, 1.0, 0.375}) {
      const Plan plan = build_plan(small_problem(w, 8 * std::int64_t{w}),
                                   find_schedule("double-ring:node=4:ring=zigzag"));
      EXPECT_DOUBLE_EQ(block_model(plan, d).makespan, (w - 1) / 2.0 + d) << w << " " << d;
    }
}

// With fewer heads than a group could have workers: the shares follow the groups that there are.
TEST(BlockModel, BalancesUspWithoutAnyNumberGiven) {
  for (const char* ring :
       {"zigzag", "striped", "zigzag:consecutive=ring", "striped:consecutive=ring"})
    for (const std::uint32_t w : {8u, 16u, 24u}) {
      const Plan plan = build_plan(small_problem(w, 16 * std::int64_t{w}),
                                   find_schedule(std::string("usp:ring=") + ring));
      EXPECT_DOUBLE_EQ(block_model(plan, 0.5).makespan, w / 2.0) << ring << " " << w;
    }
}

// The groups are as large as they can be without giving some workers more heads than others.
TEST(Usp, ChoosesTheLargestGroupThatDividesWorkersAndHeads) {
  for (std::uint32_t heads = 1; heads <= 12; ++heads)
    for (std::uint32_t w = 1; w <= 24; ++w) {
      Problem p = small_problem(w, 2 * std::int64_t{w});
      p.heads = heads;
      p.kv_heads = 1;
      std::uint32_t group = 1;
      for (std::uint32_t u = 2; u <= 8; ++u)
        if (w % u == 0 && heads % u == 0) group = u;
      std::size_t most = 1;  // a group of one exchanges nothing
      for (const Exchange& e : build_plan(p, find_schedule("usp")).exchanges)
        most = std::max<std::size_t>(most, e.members);
      EXPECT_EQ(most, group) << w << " workers, " << heads << " heads";
    }
}

TEST(BlockModel, HasARowForEverySchedule) {
  for (const Schedule& s : schedules())
    EXPECT_TRUE(std::ranges::any_of(kBlockTimes,
                                    [&](const Expectation& e) { return e.schedule == s.name; }))
        << s.name << " has no row in kBlockTimes";
}

TEST(BlockModel, LeavesNoIdleTimeToBalancedSplitAndToOddBalanced) {
  for (std::uint32_t w = 1; w <= 33; ++w)
    for (const std::string_view name : {"balanced", "balanced-split"}) {
      if (name == "balanced" && w % 2 == 0) continue;
      const BlockModel m =
          block_model(build_plan(small_problem(w, 8 * std::int64_t{w}), find_schedule(name)), 0.5);
      EXPECT_EQ(m.makespan * w, m.work) << name << " W=" << w;
    }
}

// DistFlashAttn: 36 blocks on 8 workers in 5 steps; with half-cost diagonals 32 blocks in 4 1/2.
TEST(BlockModel, GivesBalancedTheSpeedupOfItsPaperAtEightWorkers) {
  const Plan plan = build_plan(small_problem(8, 64), find_schedule("balanced"));
  const BlockModel whole = block_model(plan, 1), halved = block_model(plan, 0.5);
  EXPECT_EQ(whole.work, 36);
  EXPECT_EQ(whole.makespan, 5);
  EXPECT_EQ(halved.work, 32);
  EXPECT_EQ(halved.makespan, 4.5);
}

TEST(Striped, GivesEachWorkerAtEachStepACausalOrStrictlyCausalTile) {
  for (std::uint32_t w = 1; w <= 33; ++w) {
    constexpr std::int64_t rows = 8;
    const Plan plan = build_plan(small_problem(w, rows * w), find_schedule("striped"));
    std::map<Step, std::int64_t> slowest;
    for (const Task& t : plan.tasks) {
      if (t.kind != TaskKind::Attend) continue;
      const std::uint32_t q = plan.regions[plan.rows(t).value].first.value;
      const std::uint32_t k = plan.regions[t.keys.value].first.value;
      const Work& work = plan.works[t.work.value];
      EXPECT_EQ(work.form, k <= q ? TileForm::Causal : TileForm::StrictlyCausal);
      EXPECT_EQ(work.pairs.value, k <= q ? rows * (rows + 1) / 2 : rows * (rows - 1) / 2);
      slowest[t.step] = std::max(slowest[t.step], work.pairs.value);
    }
    // Some worker always has the causal tile, so W steps take W/2 blocks and W/2 rows.
    std::int64_t pairs = 0;
    for (const auto& [step, most] : slowest) pairs += most;
    EXPECT_EQ(pairs, w * rows * (rows + 1) / 2) << "W=" << w;
  }
}

std::map<ValueId, int> messages(const Plan& plan) {
  std::map<ValueId, int> count;
  for (const Task& t : plan.tasks)
    if (t.kind == TaskKind::Receive) ++count[plan.value(t)];
  return count;
}

TEST(Balanced, MovesAsOftenAsItsPaperSays) {
  EXPECT_THAT(messages(build_plan(small_problem(8, 64), find_schedule("balanced"))),
              testing::UnorderedElementsAre(testing::Pair(attention::kKeyValue, 22),
                                            testing::Pair(attention::kQuery, 6),
                                            testing::Pair(attention::kPartial, 6)));
}

TEST(Balanced, NeverHasMoreThanOneAttendPerWorkerAndStep) {
  for (std::uint32_t w = 1; w <= 33; ++w)
    for (const std::string_view name : {"balanced", "balanced-split"}) {
      const Plan plan = build_plan(small_problem(w, 4 * std::int64_t{w}), find_schedule(name));
      std::map<std::pair<Step, std::uint32_t>, int> attends;
      for (const Task& t : plan.tasks)
        if (t.kind == TaskKind::Attend) {
          const int here = ++attends[{t.step, t.worker_index}];
          EXPECT_EQ(here, 1) << name << " W=" << w;
        }
    }
}

TEST(Ring, DoesNotPassKeysOnToWorkersThatAllSkipThem) {
  const Plan causal = build_plan(small_problem(8, 64), find_schedule("ring"));
  EXPECT_EQ(messages(causal)[attention::kKeyValue], 28);  // chunk k visits k+1 .. 7
  const Plan full =
      build_plan(small_problem(8, 64, Pass::Forward, Mask::full()), find_schedule("ring"));
  EXPECT_EQ(messages(full)[attention::kKeyValue], 56);
}

TEST(Zigzag, PassesOnOnlyTheHalfOfTheFirstKeysThatIsEverSeen) {
  const Plan plan = build_plan(small_problem(4, 64), find_schedule("zigzag"));
  for (const Task& t : plan.tasks)
    if (t.kind == TaskKind::Receive) {
      const Region r = plan.regions[plan.rows(t).value];
      EXPECT_EQ(r.count, r.first.value == 0 ? 1u : 2u);
    }
}

TEST(Schedules, AreFoundByNameAndAskedBackByTheNearest) {
  EXPECT_EQ(find_schedule("zigzag").name, "zigzag");
  try {
    find_schedule("blanced");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("did you mean balanced?"));
  }
}

TEST(Schedules, RefuseAPlanTooLongToHold) {
  const Problem p = small_problem(8, 64);
  for (const Schedule& s : schedules_for(8)) {
    const Plan plan = build_plan(p, s);
    EXPECT_NO_THROW(build_plan(p, s, 2 * plan.tasks.size()));
    EXPECT_THROW(build_plan(p, s, plan.tasks.size() - 1), Error);
    EXPECT_THROW(build_plan(p, s, 4), Error);
  }
}

// Documents that 2 W divides: each worker computes as many pairs as any other in each step.
TEST(Schedules, ZigzagOfDocumentsIsBalancedInEachStep) {
  const auto pairs = [](const char* schedule) {
    Problem p =
        small_problem(4, 8 * (9 + 1 + 4 + 2), Pass::Both, Mask::documents({{72}, {8}, {32}, {16}}));
    const Plan plan = build_plan(p, find_schedule(schedule));
    const Verification v = verify(plan);
    EXPECT_TRUE(v.holds()) << schedule << ": " << v.violations[0].text;
    std::map<Step, std::map<std::uint32_t, std::int64_t>> by_step;
    for (const Task& t : plan.tasks)
      if (is_attend(t.kind))
        by_step[t.step][t.worker_index] += plan.works[t.work.value].pairs.value;
    return by_step;
  };
  for (const char* schedule : {"zigzag:shares=documents", "all-gather:shares=documents"})
    for (const auto& [step, by_worker] : pairs(schedule)) {
      EXPECT_EQ(by_worker.size(), 4u);
      for (const auto& [worker, n] : by_worker)
        EXPECT_EQ(n, by_worker.begin()->second) << schedule << " step " << step;
    }
  const auto whole = pairs("zigzag");
  EXPECT_NE(whole.begin()->second.at(0), whole.begin()->second.at(3));
}

}  // namespace
}  // namespace ringsched
