// How far communication may run ahead of computation: a pass over a plan, not part of any schedule.
#pragma once

#include <cstdint>
#include <string_view>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

enum class Overlap : std::uint8_t {
  None,       // one lane per worker: it either computes or communicates
  Prefetch,   // what step t needs moves while step t - 1 computes, not earlier and not later
  Unbounded,  // as early as the data, the lane and the buffers allow
};

struct CommunicationLimits {
  Overlap overlap = Overlap::Prefetch;
  std::uint32_t buffers = 0;  // receive buffers per worker and tensor kind; 0: as many as it takes
};

// Expects a plan from build_plan(). Throws Error if the schedule cannot work with so few buffers,
// naming the task that would be overwritten.
Plan limit_communication(Plan, CommunicationLimits);

std::string_view to_text(Overlap);
Overlap parse_overlap(std::string_view text);

}  // namespace ringsched
