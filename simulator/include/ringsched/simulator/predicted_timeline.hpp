// A simulated run as a Timeline.
#pragma once

#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/study.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// With its critical path from report(), if given.
Timeline predicted_timeline(const Workload&, const Simulation&, const Machine&,
                            const std::vector<PathStep>& critical_path = {});

// The run of a study, with the interval of its makespan and its lower bound.
Timeline predicted_timeline(const Study&);

}  // namespace ringsched
