// Timelines as text, for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

struct TerminalOptions {
  std::size_t columns = 100;
  bool colour = false;   // with escape codes
  bool indexed = false;  // those of 256 colours, not of all
  bool plain = false;    // ASCII alone
};

// Block and line characters as ASCII, one for one; all else stays.
std::string in_ascii(std::string_view);

// One row for each worker, a cell for each stretch of time: the digit or letter of the worker whose
// queries it attends for most of it. Throws Error if there is nothing to draw, or no room.
std::string terminal_gantt(const Timeline&, const TerminalOptions& = {});

}  // namespace ringsched
