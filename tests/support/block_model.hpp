// The block model of the papers: a full block of queries and keys takes 1, a block on the diagonal
// takes `diagonal`, everything else is free, and a worker does one attend at a time, in its order.
// A smaller tile takes its share of a block, and a tile under any other mask its share of the
// pairs. Exact for chunks that divide evenly, if the diagonal is a sum of a few powers of two.
#pragma once

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct BlockModel {
  double makespan = 0;
  double work = 0;  // over all workers; idle = workers * makespan - work
};

BlockModel block_model(const Plan&, double diagonal);

}  // namespace ringsched
