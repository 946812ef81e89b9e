// Random plans with exchanges to run: uneven tokens, heads that do not divide, fewer key/value
// heads, masks, dtypes and passes, with lanes for messages or without.
#pragma once

#include <random>
#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

Plan random_exchange_plan(std::mt19937_64&);

// How many of them a test runs: all if RINGSCHED_WHOLE is 1, else a sample.
int exchange_cases(int whole, int sample);

}  // namespace ringsched
