// What a plan amounts to, measured once, so that text and JSON cannot differ.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct PlanSummary {
  std::array<std::int64_t, kTaskKinds> tasks{};
  std::vector<std::int64_t> messages;  // by value
  std::vector<Bytes> moved;            // by value; at most 2^63 - 1 each
  std::int64_t steps = 0;
  Pairs pairs;  // of all attends, forward and backward
  Bytes plan_memory;
};

PlanSummary summarise(const Plan&);

// "balanced: 8 workers, 65 536 tokens, 32 heads (8 kv) x 128, bf16, causal, forward"
std::string headline(const Plan&);
// "36 attends, 28 merges, ...": only the kinds that occur.
std::string tasks_line(const PlanSummary&);
std::string moves_line(const Plan&, const PlanSummary&);

// What each worker attends in each step, and what moves before each step.
std::string step_table(const Plan&);

}  // namespace ringsched
