// Timelines as text, for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

struct TerminalOptions {
  std::size_t columns = 100;
  bool colour = false;  // with escape codes
};

// One row for each worker, a cell for each stretch of time: the digit or letter of the worker whose
// queries it attends for most of it. Throws Error where there is nothing to draw, or no room.
std::string terminal_gantt(const Timeline&, const TerminalOptions& = {});

}  // namespace ringsched
