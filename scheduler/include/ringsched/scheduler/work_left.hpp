// Workers that take turns on a device go by the work they have left: the one with the most left
// goes first, so that none is late because it had to wait at the end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// By task: the visible pairs that its worker has still to attend when the task comes to its turn.
std::vector<std::int64_t> work_left(const Plan&);
// The same for all tasks of one worker, in order.
std::vector<std::int64_t> work_left(const Plan&, std::span<const TaskId> of_one_worker);

}  // namespace ringsched
