// The visible pairs of a tile of many ranges. Taken range against range they cost the product of
// how many there are on both sides; as sorted stretches of positions little more than their sum.
#pragma once

#include <cstdint>
#include <optional>

#include "ringsched/scheduler/mask.hpp"

namespace ringsched {

// Of a mask that is not full. None: range against range is cheaper.
std::optional<std::int64_t> pairs_by_stretches(const Mask&, const TokenSet& queries,
                                               const TokenSet& keys);

}  // namespace ringsched
