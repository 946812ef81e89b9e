// What makes a machine unfit to be simulated.
#pragma once

#include "ringsched/machine/machine.hpp"

namespace ringsched {

// What is missing or contradicts itself; each line begins with the key that it is about.
std::vector<std::string> invalid(const Machine&);

}  // namespace ringsched
