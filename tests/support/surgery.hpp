// Changes to finished plans, for tests of what must not pass.
#pragma once

#include <random>
#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Takes a task out; whatever named it, or what it made, then names nothing.
void erase_task(Plan&, TaskId);
// Puts a copy of a task right behind it. A copied transfer has no other half of its own.
void repeat_task(Plan&, TaskId);
// Lets two tasks trade places in the program order, everything they name following them.
void swap_tasks(Plan&, TaskId, TaskId);

// One random change: drops, repeats, moves, reorders or points elsewhere. Says what it did.
std::string mutate(Plan&, std::mt19937_64&);

}  // namespace ringsched
