// What messages call a task.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// "task 17 (worker 3, step 2, attend of query chunk 3 with key chunk 1)"; also of broken plans.
std::string name_of(const Plan&, TaskId);
std::string name_of(Region);                    // "chunk 3", "chunks 4-5"
std::string name_of(const Axis&, ColumnRange);  // "heads 3", "heads 4-5"

}  // namespace ringsched
