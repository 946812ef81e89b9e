// Decoding round a ring, the baseline for trees: the cached keys travel, as in Ring Attention, and
// every worker attends all of them. With passes=results the keys stay, and a partial result goes
// from worker to worker, each of which adds its own.
#include "decode.hpp"
#include "ring.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

void ring_decode(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  if (given["passes"] == 0) return ring(problem, plan, false);
  plan.step(0);
  const std::vector<Partial> own = attend_own_part(problem, plan);
  Partial so_far = own[0];
  for (std::uint32_t w = 1; w < problem.workers; ++w) {
    plan.step(w);
    so_far = plan.combine(plan.move(so_far, WorkerId{w}), own[w]);
  }
  plan.merge(so_far);
}

}  // namespace ringsched
