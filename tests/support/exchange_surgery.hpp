// Changes to the exchanges of finished plans, for tests of what must be refused.
#pragma once

#include <random>
#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// One random change of an exchange: of its members, of what they give or get, of the whole exchange
// or of what reads its results. Says what it did. The plan must have an exchange.
std::string mutate_exchange(Plan&, std::mt19937_64&);

// Puts a task at the end of another exchange than its own.
void move_to_exchange(Plan&, TaskId member, ExchangeId);
// The members from this one on are an exchange of their own.
void split_exchange(Plan&, TaskId member);
// The members of the next exchange become members of this one, if that follows right behind it.
void join_exchanges(Plan&, ExchangeId);
// Does an exchange once more, right behind it: with the same inputs, or with what the first gave,
// which then is not called complete. Whatever read the first then reads the second.
void repeat_exchange(Plan&, ExchangeId, bool of_its_results);

}  // namespace ringsched
