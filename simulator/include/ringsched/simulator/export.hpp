// A plan with its prices in the languages of other simulators, so that they can referee.
#pragma once

#include <string>

#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// GOAL, which LogGOPSim, htsim and ATLAHS replay: per worker its tasks and what each requires.
// Times are in nanoseconds. Links become message sizes: one byte for each nanosecond that a message
// takes beyond the latency, so LogGOPSim is to be run with G = 1 and with this latency.
struct Goal {
  std::string text;
  std::int64_t latency_ns = 0;
};
Goal goal(const Workload&);

// All that the simulator reads of a workload, as plain text: see docs/model.md.
std::string workload_text(const Workload&);

}  // namespace ringsched
