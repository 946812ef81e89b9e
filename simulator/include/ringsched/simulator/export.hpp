// Exports a plan with its prices for other simulators, so that they can check ours.
#pragma once

#include <string>

#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// GOAL, which LogGOPSim, htsim and ATLAHS replay: per worker its tasks and what each requires.
// Times are in nanoseconds. Links become message sizes: one byte for each nanosecond that a message
// takes beyond the latency. So run LogGOPSim with G = 1 and with this latency.
struct Goal {
  std::string text;
  std::int64_t latency_ns = 0;
};
Goal goal(const Workload&);

// Everything that the simulator reads of a workload, as plain text: see docs/model.md.
std::string workload_text(const Workload&);

}  // namespace ringsched
