// What makes a machine unfit for simulation.
#pragma once

#include "ringsched/machine/machine.hpp"

namespace ringsched {

// What is missing or contradicts itself; each line begins with its key.
std::vector<std::string> invalid(const Machine&);
std::vector<std::string> invalid(const HostFigures&);

}  // namespace ringsched
