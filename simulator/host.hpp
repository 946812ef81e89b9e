// The host of a worker: a thread that launches kernels and posts messages, one after the other.
#pragma once

#include <cstdint>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// A library that merges into a slice of its result copies the slice out and in again: if a tile has
// only a part of a worker's rows, or is strictly causal and so has nothing for the first row.
bool is_slice(const Plan&, const Task& merge);

// A rounded result was written when it was rounded, so its output costs nothing.
bool is_rounded(const Plan&, const Task& output);

// By task, as in Workload: when the host of its worker has issued it, ps, and its waits before
// that.
struct Issue {
  TaskColumn<std::int64_t> issued;
  TaskColumn<std::uint32_t> waits_before;  // empty: none waits
  // By worker and wait: how long the host is busy before it waits, ps; and after its last wait.
  // A group may be posted after a wait, and have been prepared before.
  std::vector<std::vector<std::int64_t>> busy;
};
Issue issue_times(const Plan&, const SoftwareFigures&);

}  // namespace ringsched
