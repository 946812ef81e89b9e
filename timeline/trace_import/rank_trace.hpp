// What readers of traces share: they collect events with the times of the file, and sort them.
#pragma once

#include <cstdint>

#include "ringsched/timeline/trace_import.hpp"

namespace ringsched::trace_import {

// Sorts events. Leaves out attends inside attends of their stream, and elementwise work that is not
// on the stream of any attend or lies inside one (a kernel's own parts).
void put_in_order(RankTrace&);

}  // namespace ringsched::trace_import
