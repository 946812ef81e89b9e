// What a run needs of each GPU's memory, known before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/lowering.hpp"
#include "ringsched/runtime/memory_plan.hpp"

namespace ringsched::cuda {

// Of one GPU, with the workers `there`: their tensors and scratch memory, the positions of all
// tokens, and `workspace` bytes for the library for each worker.
std::int64_t memory_needed(const Plan&, const MemoryPlan&, const Lowering&,
                           const std::vector<WorkerId>& there, std::int64_t workspace);

// Throws RunFailed, with what would fit, if `needed` is more than `available`.
void require_memory(const Problem&, std::uint32_t gpu, std::int64_t needed, std::int64_t available);

}  // namespace ringsched::cuda
