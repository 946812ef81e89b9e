// Who shares a device and takes turns on it goes by what each has left to do: the one with most
// left goes first, so that none is late because it had to wait at the end.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// By task: the visible pairs that its worker has still to attend when the task comes to its turn.
std::vector<std::int64_t> work_left(const Plan&);

}  // namespace ringsched
