#include "ringsched/runtime/memory_plan.hpp"

#include <gtest/gtest.h>

#include "runtime/plans_to_run.hpp"

namespace ringsched {
namespace {

// A run of a thousand threads must not wait for its memory to be planned. A ring over 512 workers
// has half a million tasks; looking at all pairs of tensors of a worker would take 700 times as
// many looks as it has tasks.
TEST(MemoryPlan, TakesWorkInProportionToTheTasksOfALargePlan) {
  const Plan plan = plan_of(problem(512, 2048, 1, 1, 16, Dtype::Bf16, Pass::Forward), "ring");
  const MemoryPlan memory = plan_memory(plan);
  EXPECT_GT(plan.tasks.size(), 400'000u);
  EXPECT_GT(memory.looks, 0);
  EXPECT_LE(memory.looks, 100 * static_cast<std::int64_t>(plan.tasks.size()));
}

}  // namespace
}  // namespace ringsched
