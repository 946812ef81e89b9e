// The recipe's schedule with a mistake: it forgets the keys that are farthest away.
#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

void fetch(const Problem& problem, PlanBuilder& plan) {
  const std::uint32_t workers = problem.workers;
  std::vector<Keys> keys(workers);
  for (Step s = 0; s + 1 < workers; ++s) {
    plan.step(s);
    for (std::uint32_t r = 0; r < workers; ++r)
      keys[r] = plan.move(plan.keys(WorkerId{(r + workers - s) % workers}), WorkerId{r});
    for (std::uint32_t r = 0; r < workers; ++r)
      plan.merge(plan.attend(plan.queries(WorkerId{r}), keys[r]));
  }
}

}  // namespace ringsched
