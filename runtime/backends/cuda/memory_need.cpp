#include "backends/cuda/memory_need.hpp"

#include <fmt/format.h>

#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched::cuda {

std::int64_t memory_needed(const Plan& plan, const MemoryPlan& memory, const Lowering& lowering,
                           const std::vector<WorkerId>& there, std::int64_t workspace) {
  std::int64_t bytes = 8 * plan.problem.tokens.value;  // positions, of shares and of their chunks
  for (const WorkerId w : there)
    bytes += memory.size[w.value].value + lowering.scratch_bytes(w) + workspace;
  return bytes;
}

void require_memory(const Problem& p, std::uint32_t gpu, std::int64_t needed,
                    std::int64_t available) {
  if (needed <= available) return;
  // Everything needed grows with the tokens; take a little less, so that it is sure to fit.
  const auto tokens =
      static_cast<std::int64_t>(0.98 * static_cast<double>(p.tokens.value) *
                                static_cast<double>(available) / static_cast<double>(needed));
  throw RunFailed(fmt::format("GPU {} has {} free, but this run needs {}; {}", gpu,
                              human(Bytes{available}), human(Bytes{needed}),
                              tokens < p.workers
                                  ? std::string("no number of tokens would fit")
                                  : fmt::format("{} tokens would fit", grouped(tokens))));
}

}  // namespace ringsched::cuda
