// A pass over the tape that writes tasks: the forward pass, then the backward pass derived from the
// same calls. It makes sizes, pairs sends with receives, groups what one worker posts together, and
// drops moves that no task reads.
#pragma once

#include <cstdint>

#include "parts.hpp"
#include "tape.hpp"

namespace ringsched {

// Throws Error if there are too many.
void write_tasks(PlanParts&, const Tape&, std::uint64_t most_tasks);

}  // namespace ringsched
