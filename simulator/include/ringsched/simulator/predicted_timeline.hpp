// A simulated run as a Timeline.
#pragma once

#include "ringsched/scheduler/timeline.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

Timeline predicted_timeline(const Workload&, const Simulation&, const Machine&);

}  // namespace ringsched
