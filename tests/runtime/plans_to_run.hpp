// What tests of execution share, on any device: plans, their names in messages, and what is
// expected of their numbers.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

inline Problem problem(std::uint32_t workers, std::int64_t tokens, std::uint32_t heads,
                       std::uint32_t kv_heads, std::uint32_t dim, Dtype dtype, Pass pass,
                       const Mask& mask = Mask::causal()) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = dim;
  p.dtype = dtype;
  p.pass = pass;
  p.mask = mask;
  return p;
}

inline Plan plan_of(const Problem& p, std::string_view schedule,
                    Overlap overlap = Overlap::Prefetch) {
  return limit_communication(build_plan(p, find_schedule(std::string(schedule))), {overlap, 0});
}

inline std::string described(const Plan& plan) {
  const Problem& p = plan.problem;
  return fmt::format("{} W={} tokens {} heads {}/{} x {} {} {} {}", plan.schedule, p.workers,
                     p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype),
                     to_text(p.mask), to_text(p.pass));
}

inline std::vector<WorkerId> all_workers(const Plan& plan) {
  std::vector<WorkerId> out;
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w) out.push_back({w});
  return out;
}

// Both are kept by reference.
inline FillTensor fill_from(const Plan& plan, const Inputs& inputs) {
  return [&](const InitialTensor& t, std::span<std::byte> out) {
    if (plan.piece(t).value == attention::kPartial)
      fill_forward_result(plan, inputs, t, out);
    else
      inputs.fill(plan, t, out);
  };
}

inline void expect_right(const std::vector<CheckedResults>& all, const std::string& what) {
  ASSERT_FALSE(all.empty());
  for (const CheckedResults& c : all) {
    EXPECT_GT(c.rows, 0) << what << ": " << c.name;
    EXPECT_TRUE(c.holds()) << what << ": " << c.name << " is off by " << c.largest_error << ", "
                           << c.of_bound << " of what is allowed, at " << c.worst;
  }
}

// For INSTANTIATE_TEST_SUITE_P: testing::ValuesIn(schedule_names()), and the name of each test.
inline std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule& s : schedules()) names.emplace_back(s.name);
  return names;
}

// Those whose plans GPUs run: without exchanges.
inline std::vector<std::string> gpu_schedule_names() {
  std::vector<std::string> names;
  for (const Schedule& s : schedules())
    if (build_plan(problem(4, 64, 4, 4, 8, Dtype::Bf16, Pass::Forward), s).exchanges.empty())
      names.emplace_back(s.name);
  return names;
}

inline std::string name_of_test(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace ringsched
