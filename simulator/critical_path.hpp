#pragma once

#include "costs.hpp"
#include "ringsched/simulator/report.hpp"

namespace ringsched {

void critical_path(const Workload&, const Simulation&, const Costs&, PathShare&,
                   std::vector<PathStep>&);

}  // namespace ringsched
