// The most memory that verify() says each worker needs at one time.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

TEST(Peak, OfARingIsTwoVisitorsBesidesItsOwn) {
  const Problem p = small_problem(8, 64, Pass::Forward, Mask::full());
  const Plan plan =
      limit_communication(build_plan(p, find_schedule("ring")), {Overlap::Prefetch, 0});
  const Verification v = verify(plan);
  const Tokens rows{8};
  const auto bytes = [&](TensorKind k) { return tensor_bytes(p, k, rows).value; };
  // Own Q and KV, the result so far and what is about to be merged, one visitor and the next.
  for (const Bytes peak : v.peak)
    EXPECT_EQ(peak.value, bytes(TensorKind::Query) + 3 * bytes(TensorKind::KeyValue) +
                              2 * bytes(TensorKind::Partial));
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
  const auto bytes = [&](TensorKind k) { return tensor_bytes(plan.problem, k, {4}).value; };
  const std::int64_t home = bytes(TensorKind::Query) + bytes(TensorKind::KeyValue);
  const std::int64_t visitor = bytes(TensorKind::KeyValue), result = bytes(TensorKind::Partial);
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
