// The block model of the papers: a full block of queries and keys takes 1, a block on the diagonal
// takes `diagonal`, all else is free, and a worker does one attend at a time in its order. Exact,
// in sixteenths, for problems whose chunks divide evenly.
#pragma once

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct Sixteenths {
  std::int64_t value = 0;
  friend bool operator==(const Sixteenths&, const Sixteenths&) = default;
};
constexpr Sixteenths blocks(std::int64_t n) { return {16 * n}; }

struct BlockModel {
  Sixteenths makespan;
  Sixteenths work;  // over all workers; idle = workers * makespan - work
};

BlockModel block_model(const Plan&, Sixteenths diagonal);

void PrintTo(const Sixteenths&, std::ostream*);

}  // namespace ringsched
