// Rings that send all the way round, as libraries do, even what nobody reads any more.
#include <gtest/gtest.h>

#include <map>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"

namespace ringsched {
namespace {

constexpr const char* kRings[] = {"ring", "striped", "zigzag", "usp:ulysses=2",
                                  "usp:ulysses=2:ring=zigzag"};

Plan plan_of(const std::string& ring, std::uint32_t workers, Pass pass, const Mask& mask,
             const char* sends = "all") {
  return build_plan(small_problem(workers, 57, pass, mask),
                    find_schedule(ring + ":sends=" + sends));
}

// By worker: how many tensors of this kind it sends.
std::map<std::uint32_t, std::uint32_t> sent(const Plan& plan, ValueId kind) {
  std::map<std::uint32_t, std::uint32_t> out;
  for (const Task& t : plan.tasks)
    if (is_send(t.kind) && plan.value(t) == kind) ++out[t.worker_index];
  return out;
}

TEST(SendsAll, IsProvedAndRightForEveryRing) {
  for (const std::string ring : kRings)
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::window({20})})
        for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
          if (kSanitized && overlap != Overlap::Prefetch) continue;
          const Plan plan = limit_communication(plan_of(ring, 6, pass, mask), {overlap, 0});
          const Verification v = verify(plan);
          ASSERT_TRUE(v.holds()) << ring << ": " << v.violations[0].text;
          EXPECT_EQ(interpret(plan, 1), "") << ring;
        }
}

// Keys take W - 1 hops from each worker, and their gradients come home with the last of W.
TEST(SendsAll, SendsTheSameFromEveryWorkerWhateverTheMask) {
  for (const std::string ring : {"ring", "striped", "zigzag"})
    for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::window({5})})
      for (const std::uint32_t workers : {2u, 3u, 8u}) {
        const Plan plan = plan_of(ring, workers, Pass::Backward, mask);
        const auto keys = sent(plan, attention::kKeyValue);
        const auto gradients = sent(plan, attention::kKeyValueGradient);
        ASSERT_EQ(keys.size(), workers) << ring;
        ASSERT_EQ(gradients.size(), workers) << ring;
        for (std::uint32_t w = 0; w < workers; ++w) {
          EXPECT_EQ(keys.at(w), workers - 1) << ring;
          EXPECT_EQ(gradients.at(w), workers) << ring;
        }
      }
}

TEST(SendsAll, IsNotTheDefault) {
  const Plan needed = plan_of("ring", 8, Pass::Forward, Mask::causal(), "needed");
  EXPECT_EQ(sent(needed, attention::kKeyValue).size(), 7u);  // nobody waits for the last one's
  EXPECT_EQ(needed.schedule, "ring");
  EXPECT_EQ(plan_of("ring", 8, Pass::Forward, Mask::causal()).schedule, "ring:sends=all");
}

}  // namespace
}  // namespace ringsched
