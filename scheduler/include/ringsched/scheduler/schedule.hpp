// The schedules there are, and how one becomes a plan.
#pragma once

#include <span>
#include <string_view>

#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct Schedule {
  std::string_view name;     // as typed after --schedule
  std::string_view summary;  // one line for `ringsched schedules`
  std::string_view source;   // the paper or page it comes from
  Layout (*layout)(std::uint32_t workers, Tokens);
  void (*build)(const Problem&, PlanBuilder&);
};

std::span<const Schedule> schedules();
const Schedule& find_schedule(std::string_view name);  // throws Error naming the nearest

// The plan as the schedule means it: communication runs as far ahead as its data allow. What limits
// it is a pass of its own (overlap.hpp). Throws Error where the problem makes no sense or the plan
// would have more than `most_tasks`.
Plan build_plan(const Problem&, const Schedule&, std::uint64_t most_tasks = kMostTasks);

}  // namespace ringsched
