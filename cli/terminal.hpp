// What the terminal can show, if standard output is one.
#pragma once

#include <cstddef>
#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// Columns of the terminal; 0 if standard output is not one: text for files is not wrapped.
std::size_t terminal_columns();

// The width of what must not be wider than a page: that of the terminal, from 40 to 240; elsewhere
// COLUMNS, or 100.
std::size_t page_columns();

// Block characters as they are, or as ASCII if the locale (LC_ALL, LC_CTYPE, LANG) is set and is
// not UTF-8.
std::string for_locale(const std::string& text);

// The chart of a timeline, as wide as the terminal and in the colours it has; elsewhere 100 columns
// without colour.
std::string terminal_chart(const Timeline&);

}  // namespace ringsched
