// Whether processes that are to work together mean the same: found out before they begin, since
// otherwise they hang, or compute something else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

// Names and values, in the order in which differences are told.
using Facts = std::vector<std::pair<std::string, std::string>>;

// What differs, between whom and how, for people; empty if nothing does.
std::string disagreement(const std::vector<Facts>& by_rank);
// Together with all processes of the world.
std::string disagreement(World&, const Facts& own);

}  // namespace ringsched
