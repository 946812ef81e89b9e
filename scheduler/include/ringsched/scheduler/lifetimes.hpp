// When each tensor of a plan must be in memory. Two tensors of a worker whose lifetimes do not
// overlap may share a place: the plan's own order keeps them apart, whatever the timing.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// From one moment of the worker to another. Moment 2i is between its compute tasks i - 1 and i, and
// 2i + 1 while i runs. A merge or sum into a tensor of the same extent is done in place: its result
// begins to live when it has ended, in the place of its first input.
struct Lifetime {
  static constexpr std::uint32_t kAlways = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t from = 0, until = 0;

  friend auto operator<=>(const Lifetime&, const Lifetime&) = default;
};

// By TensorId, for a plan that verifies; {0, 0} if there is no such tensor. Initial tensors always
// live.
std::vector<Lifetime> lifetimes(const Plan&);
// What each of these tasks needs only while it runs: the staging memory of a transfer.
std::vector<Lifetime> lifetimes_while(const Plan&, const std::vector<TaskId>&);

}  // namespace ringsched
