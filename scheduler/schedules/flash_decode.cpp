// Decoding with the cache on several workers (Flash-Decoding, Dao et al. 2023, across devices):
// each attends its part of the cached keys with the queries of the new tokens, and the partial
// results are added up by one all-reduce, or a reduce to the worker that has the new tokens.
#include "decode.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

std::vector<Partial> attend_own_part(const Problem& problem, PlanBuilder& plan) {
  std::vector<Partial> partials;
  for (std::uint32_t w = 0; w < problem.workers; ++w)
    partials.push_back(plan.attend(plan.queries(WorkerId{w}), plan.keys(WorkerId{w})));
  return partials;
}

std::vector<Wanted> results_for(const PlanBuilder& plan, std::uint32_t workers, bool all) {
  std::vector<Wanted> wanted;
  for (std::uint32_t w = 0; w < workers; ++w) {
    const Queries own = plan.queries(WorkerId{w});
    const bool gets = all || w + 1 == workers;
    wanted.push_back(
        {WorkerId{w}, gets ? own.view : Region{{0}, 0}, gets ? own.heads : ColumnRange{}});
  }
  return wanted;
}

void flash_decode(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  plan.step(0);
  const std::vector<Partial> partials = attend_own_part(problem, plan);
  plan.step(1);
  if (problem.workers == 1)
    plan.merge(partials[0]);
  else
    plan.exchange(partials, results_for(plan, problem.workers, given["to"] == 0));
}

}  // namespace ringsched
