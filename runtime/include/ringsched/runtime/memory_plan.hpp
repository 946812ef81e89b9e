// Where each tensor of a worker lies in the one block of memory that it takes for a run. Tensors
// whose lifetimes do not meet share a place, so double buffering is nothing that a schedule or an
// executor has to know of.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct MemoryPlan {
  static constexpr std::int64_t kNowhere = -1;
  std::vector<std::int64_t> offset;  // by TensorId, bytes from the start of its worker's block
  // Likewise, by the id of its task: where a transfer gathers and spreads what is no run in memory.
  std::map<std::uint32_t, std::int64_t> staging;
  std::vector<Bytes> size;  // of each worker's block
  std::int64_t looks = 0;   // at two tensors that live at one time: the work it took
};

// Every tensor begins at a multiple of this.
inline constexpr std::int64_t kTensorAlignment = 64;

// Of a plan that verifies. Takes time in proportion to its tasks and to what lives beside each.
MemoryPlan plan_memory(const Plan&);

}  // namespace ringsched
