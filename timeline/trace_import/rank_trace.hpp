// What readers of traces share: events are collected with the times of the file, and put in order.
#pragma once

#include <cstdint>

#include "ringsched/timeline/trace_import.hpp"

namespace ringsched::trace_import {

// Sorts events, leaves out attends inside attends of their stream, and elementwise work that is
// not on the stream of any attend or lies inside one (a kernel's own parts).
void put_in_order(RankTrace&);

}  // namespace ringsched::trace_import
