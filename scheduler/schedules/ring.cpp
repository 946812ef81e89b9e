// Ring attention (Liu et al. 2023) on contiguous shares: keys and values travel r -> r + 1, so at
// step s worker r meets those of worker r - s. Under a causal mask it sees none of them after step
// r, while the last worker is busy in every step: that is the imbalance the other schedules remove.
#include "ring.hpp"

namespace ringsched {

void ring(const Problem& problem, PlanBuilder& plan, bool all) {
  std::vector<Keys> visiting = keys_at_home(plan, problem.workers);
  for (Step s = 0; s < problem.workers; ++s) {
    plan.step(s);
    if (s > 0) visiting = rotate(plan, visiting, all);
    for (std::uint32_t r = 0; r < problem.workers; ++r)
      plan.merge(plan.attend(plan.queries(WorkerId{r}), visiting[r]));
  }
}

void ring(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  ring(problem, plan, sends_all(given));
}

}  // namespace ringsched
