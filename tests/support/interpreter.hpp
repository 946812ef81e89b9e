// Executes a plan on real sets of (query token, key token, head) terms, naively, and compares the
// outputs, and whatever a task calls complete, with the mask. It shares nothing with verify(): it
// compares no regions, follows no uses and reasons about no order. Workers and lanes run in a
// random order. Transfers wait for their other halves and members of an exchange for all others. A
// receive into a buffer destroys the buffer's contents at the first moment at which it may.
#pragma once

#include <cstdint>
#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Empty if this run computed exactly what the problem asks for, else what went wrong.
std::string interpret(const Plan&, std::uint64_t seed);
// What went wrong in the first of these runs in which anything did; empty if nothing ever did.
std::string any_wrong_run(const Plan&, int runs);

}  // namespace ringsched
