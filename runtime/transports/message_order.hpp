// For transports that tell messages apart by their order alone, as NCCL does: between two workers,
// the n-th that is sent on a lane is the n-th that is received.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// What stands in the way of that; empty if nothing does. Of a plan that verifies.
std::string order_conflict(const Plan&);

}  // namespace ringsched
