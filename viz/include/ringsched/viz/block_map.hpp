// Which worker computes which block of the attention matrix, and when: the picture that explains
// why striped, zigzag and balanced exist.
#pragma once

#include <span>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

// Query chunks down and key chunks across, in the order of their first tokens; each block in the
// colour of the worker that computes it, hatched where that is not the home of the queries, and
// only the part of it that the mask leaves. Where attends have some of the heads only, a block is
// cut into bands, one for each share of the heads. Several plans stand side by side. Throws Error
// for more chunks than can be told apart.
Picture block_map(std::span<const Plan* const>, const Page& = {});

}  // namespace ringsched
