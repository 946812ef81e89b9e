// Changes to finished plans, for tests of what must be refused.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// The n-th task of a kind on a worker.
TaskId find_task(const Plan&, TaskKind, std::uint32_t worker, int n = 0);

// Lays the tasks out anew: order[i] is the old id of the i-th, and may leave some out or repeat
// some.
void relay(Plan&, const std::vector<std::uint32_t>& order);
// Lists the exchanges and repacks that tasks name, each with as many members as name it.
void find_members(Plan&);

// Takes a task out; whatever named it, or what it made, then names nothing.
void erase_task(Plan&, TaskId);
// Puts a copy of a task right behind it. A copied transfer has no other half of its own.
void repeat_task(Plan&, TaskId);
// Lets two tasks trade places in the program order, everything they name following them.
void swap_tasks(Plan&, TaskId, TaskId);

// Lets whatever reads a tensor read another.
void read_instead(Plan&, TensorId old, TensorId instead);

// Gives a task another piece: of all columns, unless told which.
void set_piece(Plan&, Task&, ValueId, RegionId rows);
void set_piece(Plan&, Task&, Piece);
void set_rows(Plan&, Task&, RegionId);
void set_value(Plan&, Task&, ValueId);
void set_columns(Plan&, Task&, ColumnRange);

// Makes a task's work agree with its piece again.
void restate_work(Plan&, TaskId);
// Says of what outputs and prepares read, and of what comes in as that, and of nothing else that
// adds up, that it is complete.
void restate_completion(Plan&);

// The same with each task done twice, for the first and for the second half of its columns, unless
// it has exchanges; with `given` the tensors that are there from the beginning are in halves, too.
// All values must have an even number of columns; a plan with buffers or control edges loses them.
Plan by_half_the_heads(const Plan&, bool given = false);

// One random change: drops, repeats, moves, reorders or points elsewhere. Says what it did.
std::string mutate(Plan&, std::mt19937_64&);

// Adds a message: keys of worker 2 of 3 to worker 0, which sees none of them.
void move_for_nothing(Plan&);

}  // namespace ringsched
