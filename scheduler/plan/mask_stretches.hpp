// The visible pairs of a tile of many ranges. Range against range would cost the product of the
// numbers of ranges on both sides. Sorted stretches of positions cost little more than their sum.
#pragma once

#include <cstdint>
#include <optional>

#include "ringsched/scheduler/mask.hpp"

namespace ringsched {

// For a mask that is not full. Empty: range against range is cheaper.
std::optional<std::int64_t> pairs_by_stretches(const Mask&, const TokenSet& queries,
                                               const TokenSet& keys);

}  // namespace ringsched
