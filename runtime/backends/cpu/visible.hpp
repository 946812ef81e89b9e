// What each query of a tile sees, as places in its list of keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention.hpp"
#include "ringsched/scheduler/mask.hpp"

namespace ringsched {

// `keys` are positions in rising order.
std::vector<cpu::VisibleKeys> visible_keys(const Mask&, std::span<const std::int64_t> queries,
                                           std::span<const std::int64_t> keys);

}  // namespace ringsched
