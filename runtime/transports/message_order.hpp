// For transports that tell messages apart by their order alone, as NCCL does: between two workers,
// the n-th one sent on a lane must be the n-th one received.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// The first contradiction to that; empty if there is none. For a plan that verifies.
std::string order_conflict(const Plan&);

}  // namespace ringsched
