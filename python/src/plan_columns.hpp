// The columns of a plan. Other programs rely on their names; how a plan stores them may change.
#pragma once

#include "held.hpp"
#include "table.hpp"

namespace ringsched::python {

Table tasks_table(const PlanPointer&);
Table chunks_table(const PlanPointer&);
Table pieces_table(const PlanPointer&);
Table works_table(const PlanPointer&);
Table program_table(const PlanPointer&);

std::vector<std::string> kind_names();

}  // namespace ringsched::python
