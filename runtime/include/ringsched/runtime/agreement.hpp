// Checks before a run that all processes mean the same run. Otherwise they hang, or compute
// something else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

// Names and values, in the order in which differences are reported.
using Facts = std::vector<std::pair<std::string, std::string>>;

// What differs, between which processes and how, for people; empty if nothing does.
std::string disagreement(const std::vector<Facts>& by_rank);
// Together with all processes of the world.
std::string disagreement(World&, const Facts& own);

}  // namespace ringsched
