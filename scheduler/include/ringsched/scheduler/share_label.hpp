// The short names of tokens in tables and pictures.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// The chunks of a share from one to another, from 0 on: "a", "ab", "a-d"; from the 27th chunk on
// ".27-30".
std::string chunks_label(std::uint32_t first, std::uint32_t last);

// "3": the share of worker 3; "3a", "3b": its first and second chunk. For several shares, "2-5":
// those of workers 2 to 5; "0-6/2": of every second one from 0 to 6; "0+4": of workers 0 and 4.
std::string share_label(const Plan&, RegionId);

// " h0-7": the heads of an attend; nothing if it has all heads.
std::string heads_label(const Plan&, const Task& attend);

}  // namespace ringsched
