// What standard output is connected to.
#pragma once

#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// The chart of a timeline as wide as the terminal, in colour where it has some; 100 columns and
// plain elsewhere.
std::string terminal_chart(const Timeline&);

}  // namespace ringsched
