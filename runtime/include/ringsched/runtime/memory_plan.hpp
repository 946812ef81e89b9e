// Places each tensor of a worker in the one block of memory that the worker allocates for a run.
//
// Tensors whose lifetimes do not overlap share a place. So double buffering follows from the plan,
// and neither schedules nor executors deal with it. memory_plan.cpp packs the blocks in two orders,
// by time and long-lived first, tries again with those first that did not fit, and keeps the
// smallest result.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct MemoryPlan {
  static constexpr std::int64_t kNowhere = -1;
  std::vector<std::int64_t> offset;  // by TensorId, bytes from the start of its worker's block
  // By the id of its task: where a transfer gathers or spreads what is not contiguous.
  std::map<std::uint32_t, std::int64_t> staging;
  std::vector<Bytes> size;  // of each worker's block
  std::int64_t looks = 0;   // at two tensors that live at one time: the work it took
};

// Every tensor begins at a multiple of this.
inline constexpr std::int64_t kTensorAlignment = 64;

// For a plan that verifies. Takes time in proportion to its tasks and to the tensors that live
// beside each.
MemoryPlan plan_memory(const Plan&);

}  // namespace ringsched
