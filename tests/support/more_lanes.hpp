// Plans that use more lanes than the three that every plan has.
#pragma once

#include <utility>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// The same with eight lanes: operands of one step in three move on the fourth, of another on the
// last. A group is of one step, so it stays together.
inline Plan on_more_lanes(Plan plan) {
  for (const char* const name : {"outer", "weights", "gradients", "tensor", "the \"last\""})
    if (plan.lanes.size() < kMostLanes) plan.lanes.emplace_back(name);
  for (Task& t : plan.tasks)
    if (t.lane == Lane::Fetch && t.step % 3 != 0)
      t.lane = static_cast<Lane>(t.step % 3 == 1 ? 3 : 7);
  return plan;
}

inline bool is_on_a_further_lane(Lane lane) {
  return static_cast<std::size_t>(lane) >= kBasicLanes.size();
}

}  // namespace ringsched
