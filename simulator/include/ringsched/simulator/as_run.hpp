// A schedule as a library runs it.
#pragma once

#include <string>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

// What the figures of a library say of its rings, as a parameter of the schedule (`sends`), where
// that has it and was not told.
std::string as_run(const std::string& schedule, const SoftwareFigures&);

}  // namespace ringsched
