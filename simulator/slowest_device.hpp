// Devices of one kind differ in speed, and workers wait for the slowest.
#pragma once

#include <vector>

namespace ringsched {

// `attending` has how long each device attends if all are equally fast. Their speeds deviate
// independently by `spread` (a standard deviation, as a share). Returns the median of the longest
// time, over the longest of equal devices: 1 for one device, more for several that work as much.
double pace_of_slowest(const std::vector<double>& attending, double spread);

}  // namespace ringsched
