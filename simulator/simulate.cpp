#include "ringsched/simulator/simulate.hpp"

#include <algorithm>

#include "engines.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

void too_late() { fail("this run takes longer than 46 days, the longest that can be simulated"); }

Simulation simulate(const Workload& workload, const Conditions& conditions) {
  static_assert(kMostTasks <= std::uint64_t{1} << 29);  // the tasks that a Cause can name
  if (workload.plan->tasks.size() > kMostTasks)
    fail("the plan has {} tasks; a plan has at most {}", workload.plan->tasks.size(), kMostTasks);
  const Costs costs(workload, conditions);
  Simulation out;
  if (conditions.events_only || !in_one_pass(workload, costs, out))
    run_events(workload, conditions, costs, out);
  for (const std::int64_t end : out.end) out.makespan.value = std::max(out.makespan.value, end);
  return out;
}

}  // namespace ringsched
