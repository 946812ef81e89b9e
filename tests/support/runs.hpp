// Predicted runs to draw and to inspect.
#pragma once

#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// Its causes, details and critical path included.
Timeline predicted_run(const Plan&, const Machine&, const Conditions& = {});

struct NamedRun {
  std::string name;
  Plan plan;
  Timeline timeline;
};
// Every schedule on every test machine and on `ideal`, all passes, for so many workers.
std::vector<NamedRun> predicted_runs(std::uint32_t workers);

}  // namespace ringsched
