// Which worker computes which block of the attention matrix, and when: the picture that explains
// why striped, zigzag and balanced exist.
#pragma once

#include <span>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

// Query chunks down and key chunks across, in the order of their first tokens. Each block has the
// colour of the worker that computes it, hatched if that worker does not own the queries, and only
// the part of it that the mask leaves. If attends have only some of the heads, a block is cut into
// bands, one for each share of the heads. Several plans stand side by side. Throws Error for more
// chunks than can be distinguished.
Picture block_map(std::span<const Plan* const>, const Page& = {});
// Throws the same Error, if any, without drawing.
void require_block_map(const Plan&);

}  // namespace ringsched
