// The most memory that each worker of a small plan can ever need at once, found by brute force.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Over all orders of events that the plan allows, on all workers together. Nothing of this is
// shared with verify(): what comes before what is a matrix of bits, and each set of readers that
// may be the last ones is tried.
std::vector<std::int64_t> most_memory(const Plan&);

}  // namespace ringsched
