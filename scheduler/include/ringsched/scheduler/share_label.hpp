// The short names of tokens in tables and pictures.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// "3": the share of worker 3; "3a", "3b": its first and second chunk. For several shares, "2-5":
// those of workers 2 to 5; "0-6/2": of every second one from 0 to 6; "0+4": of workers 0 and 4.
std::string share_label(const Plan&, RegionId);

// " h0-7": the heads of an attend; nothing if it has all heads.
std::string heads_label(const Plan&, const Task& attend);

}  // namespace ringsched
