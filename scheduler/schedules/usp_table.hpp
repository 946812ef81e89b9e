// The table of USP's workers: a Ulysses group in each row, a ring in each column.
#pragma once

#include <vector>

#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

struct UspTable {
  std::uint32_t rows, columns;
  std::vector<WorkerId> workers;  // row by row
};
UspTable usp_table(const Problem&, const Arguments&);

}  // namespace ringsched
