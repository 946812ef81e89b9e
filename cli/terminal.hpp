// Charts for the terminal that standard output is connected to, if it is.
#pragma once

#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// The chart of a timeline, as wide as the terminal and in colour if it has colours; elsewhere 100
// columns without colour.
std::string terminal_chart(const Timeline&);

}  // namespace ringsched
