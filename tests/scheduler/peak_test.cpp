// The most memory that verify() says each worker needs at one time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/peak_oracle.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

TEST(Peak, OfARingIsTwoVisitorsBesidesItsOwn) {
  const Problem p = small_problem(8, 64, Pass::Forward, Mask::full());
  const Plan plan =
      limit_communication(build_plan(p, find_schedule("ring")), {Overlap::Prefetch, 0});
  const Verification v = verify(plan);
  const Tokens rows{8};
  const auto bytes = [&](ValueId k) { return program_of(p).bytes(k, rows).value; };
  // Own Q and KV, the result so far and what is about to be merged, one visitor and the next.
  for (const Bytes peak : v.peak)
    EXPECT_EQ(peak.value, bytes(attention::kQuery) + 3 * bytes(attention::kKeyValue) +
                              2 * bytes(attention::kPartial));
}

// Keys that pass through worker 1 before it computes anything, and are gone when it does.
TEST(Peak, HoldsWhatOnlyPassesThroughUntilItIsSentOn) {
  const Plan plan = read_plan(R"({"format":"ringsched-plan","version":1,
    "problem":{"workers":3,"tokens":12,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"fp32",
               "mask":"documents:4,4,4","pass":"forward"},
    "tasks":[{"do":"send","in":["KV0"],"to":1},{"do":"receive","from":0},
             {"do":"send","in":[1],"to":2},{"do":"receive","from":2},
             {"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"],"after":[2]},
             {"do":"attend","in":["Q2","KV2"]}]})",
                              "plan");
  const Verification v = verify(plan);
  ASSERT_TRUE(v.holds());
  const auto bytes = [&](ValueId k) { return plan.program.bytes(k, {4}).value; };
  const std::int64_t home = bytes(attention::kQuery) + bytes(attention::kKeyValue);
  const std::int64_t visitor = bytes(attention::kKeyValue), result = bytes(attention::kPartial);
  ASSERT_GT(visitor, result);
  EXPECT_EQ(v.peak[0].value, home + result);
  EXPECT_EQ(v.peak[1].value, home + visitor);           // the visitor, then the result
  EXPECT_EQ(v.peak[2].value, home + visitor + result);  // nobody reads the visitor: it stays
}

TEST(Peak, GrowsWithTheWorkersOnlyWhenCommunicationIsUnbounded) {
  const auto peak = [](std::uint32_t w, Overlap overlap) {
    const Problem p = small_problem(w, 8 * std::int64_t{w});
    const Verification v =
        verify(limit_communication(build_plan(p, find_schedule("balanced")), {overlap, 0}));
    return std::max_element(v.peak.begin(), v.peak.end())->value;
  };
  EXPECT_EQ(peak(32, Overlap::Prefetch), peak(64, Overlap::Prefetch));
  EXPECT_LE(peak(32, Overlap::None), peak(32, Overlap::Prefetch));
  EXPECT_LT(peak(32, Overlap::Unbounded), peak(64, Overlap::Unbounded));
}

// What verify says, over the most that a worker can really come to need.
struct Excess {
  double least = 1, most = 1;
};

Excess excess(const Plan& plan) {
  const Verification v = verify(plan);
  const std::vector<std::int64_t> needed = most_memory(plan);
  Excess e;
  for (std::size_t w = 0; w < needed.size(); ++w) {
    const double ratio = static_cast<double>(v.peak[w].value) / static_cast<double>(needed[w]);
    e.least = std::min(e.least, ratio);
    e.most = std::max(e.most, ratio);
  }
  return e;
}

// What docs/cli.md says of it. A lower bound would be a lie, a much higher one of no use.
TEST(Peak, IsEnoughUnderAnyTimingAndNotMuchMore) {
  struct {
    Overlap overlap;
    double most;
  } const allowed[] = {{Overlap::None, 1}, {Overlap::Prefetch, 1.09}, {Overlap::Unbounded, 1.31}};
  double worst = 1;
  for (const Case& c : all_schedules(kSanitized ? 4 : 6))
    for (const Mask& mask : {Mask::causal(), Mask::full()})
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
        for (const auto& [overlap, most] : allowed) {
          Problem p = small_problem(c.workers, 16 * std::int64_t{c.workers}, pass, mask);
          p.kv_heads = p.heads;  // large gradients of keys, of which the bound counts too many
          const Plan plan = limit_communication(build_plan(p, *c.schedule), {overlap, 0});
          const Excess e = excess(plan);
          // What two exchanges in a row stage, or bring, is counted together unless something
          // computes in between.
          const bool exchanges = !plan.exchanges.empty() && overlap != Overlap::None;
          const bool exact = pass == Pass::Forward && overlap == Overlap::Unbounded;
          const auto what = [&] {
            return fmt::format("{} {} {} {}", c.name(), to_text(mask), to_text(pass),
                               to_text(overlap));
          };
          EXPECT_GE(e.least, 1) << what();
          EXPECT_LE(e.most, exchanges ? 1.4 : exact ? 1 : most) << what();
          worst = std::max(worst, e.most);
        }
  if (!kSanitized) {
    EXPECT_GT(worst, 1.25);  // the docs say 30%
  }
}

// Staging of exchanges that follow each other on a lane is counted together (docs/cli.md).
TEST(Peak, OfExchangesHasWhatTheyGatherAndSpread) {
  double worst = 1;
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u})
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const std::uint32_t kv_heads : {1u, 4u}) {
        Problem p = small_problem(workers, 16 * std::int64_t{workers} - 1, pass);
        p.kv_heads = kv_heads;
        for (const Plan& plan :
             {ulysses_by_hand(p), all_gather_by_hand(p, 1), gather_queries_by_hand(p)}) {
          const Excess e = excess(plan);
          EXPECT_EQ(e.least, 1) << plan.schedule << " " << workers << " " << to_text(pass);
          worst = std::max(worst, e.most);
        }
      }
  EXPECT_LE(worst, 1.52);
  EXPECT_GT(worst, 1.5);
}

// A receive is posted together with a send, so not before what is sent has been made.
TEST(Peak, OfAGroupBeginsWhenItsLastMemberCanBegin) {
  const Problem p = small_problem(3, 48, Pass::Backward, Mask::full());
  const Excess e =
      excess(limit_communication(build_plan(p, find_schedule("ring")), {Overlap::Unbounded, 0}));
  EXPECT_EQ(e.most, 1);
}

TEST(Peak, BeyondAllNumbersIsTheMostThereIs) {
  Problem p = small_problem(3, kMaxTokens - 1);  // equal shares
  p.heads = p.kv_heads = kMaxHeads;
  p.head_dim = kMaxHeadDim;
  p.dtype = Dtype::Fp32;
  Plan plan = build_plan(p, find_schedule("ring"));
  // Visitors that nobody reads stay: 24 of them have 2^63 bytes, and 48 have 2^64.
  for (const int more : {40, 20}) {
    for (int i = 0; i < more; ++i) move_for_nothing(plan);
    const Verification v = verify(plan);
    ASSERT_TRUE(v.holds());
    EXPECT_EQ(v.peak[0].value, std::numeric_limits<std::int64_t>::max());
    EXPECT_LT(v.peak[1].value, std::int64_t{1} << 62);
  }
}

}  // namespace
}  // namespace ringsched
