// The sizes of a plan, measured once, so that text and JSON cannot differ.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Exchanges of one value and form.
struct ExchangeSummary {
  ValueId value;
  ExchangeForm form = ExchangeForm::Other;
  std::int64_t count = 0;
  Bytes moved;  // between workers; at most 2^63 - 1
};

struct PlanSummary {
  std::array<std::int64_t, kTaskKinds> tasks{};
  std::vector<std::int64_t> messages;      // by value
  std::vector<Bytes> moved;                // by value, in messages; at most 2^63 - 1 each
  std::vector<Bytes> kept;                 // by value: given to workers that do not own it
  std::vector<ExchangeSummary> exchanges;  // in the order of the first of each
  std::int64_t exchange_count = 0;
  std::int64_t repack_count = 0;
  std::int64_t steps = 0;
  Pairs pairs;  // of all attends, forward and backward
  Bytes plan_memory;
};

PlanSummary summarise(const Plan&);

// "balanced: 8 workers, 65,536 tokens, 32 heads (8 kv) x 128, bf16, causal, forward"
std::string headline(const Plan&);
// "36 attends, 28 merges, ...": only the kinds that occur.
std::string tasks_line(const PlanSummary&);
// "6 key_value (160.0 MiB), 1 all-to-all of query (48.0 MiB)"
std::string moves_line(const Plan&, const PlanSummary&);
// "queries (6.0 MiB), keys and values (6.0 MiB)": what the forward pass left; empty if nothing.
std::string kept_line(const Plan&, const PlanSummary&);
// "2 all-gather as rings, 3 all-to-all as direct messages"
std::string lowered_line(const std::vector<LoweredForm>&, Lowering asked);
// By value: in messages and exchanges; at most 2^63 - 1 each.
std::vector<Bytes> all_moved(const PlanSummary&);

// What each worker attends in each step, and what moves before each step.
std::string step_table(const Plan&);

}  // namespace ringsched
