// Striped attention (Brandon et al. 2023): the ring again, but token x lives on worker x mod W (the
// layout that the registry gives it). Every tile is then about half visible, causal or strictly
// causal, and all workers do the same at each step.
#include "ring.hpp"

namespace ringsched {

void striped(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  ring(problem, plan, sends_all(given));
}

}  // namespace ringsched
