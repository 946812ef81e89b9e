// What schedules that decode share.
#pragma once

#include <vector>

#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

// By worker: its queries to the part of the cache that it has.
std::vector<Partial> attend_own_part(const Problem&, PlanBuilder&);
// By worker: all rows and heads of the result, or for the last worker only.
std::vector<Wanted> results_for(const PlanBuilder&, std::uint32_t workers, bool all);

}  // namespace ringsched
