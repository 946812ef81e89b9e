// Random plans with exchanges, native or lowered to messages, to run: uneven tokens, heads that do
// not divide, fewer key/value heads, masks, dtypes and passes, with lanes for messages or without.
#pragma once

#include <random>
#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

Plan random_exchange_plan(std::mt19937_64&);

}  // namespace ringsched
