// A slow second opinion on the simulator: it looks at every task and every message at every
// instant, in floating-point time. It shares nothing with the engines but the description of the
// workload.
#pragma once

#include <vector>

#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

struct NaiveRun {
  std::vector<double> start, end;  // ps, by task
  double makespan = 0;
};

NaiveRun naive_simulation(const Workload&, const Conditions&);

}  // namespace ringsched
