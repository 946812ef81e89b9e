// Helper-balanced attention (DistFlashAttn, Li et al. 2023, figure 2). At step t worker r's partner
// is p = r - t, round the ring. If r sees p's keys, they come straight from p and r attends them.
// If it does not (r < t under a causal mask), r would be idle, and helps instead: p's queries come
// to r, which attends its own keys for them, and p merges the result one step later. That covers
// the pairs at distance W - t, so the steps t > W/2 find their work done.
//
// At t = W/2, W even, a pair is met from both its sides. The owner of the queries takes it and the
// owner of the keys rests; or, with LastHelp::Split, each takes half of the queries.
#include "helpers.hpp"

#include <vector>

namespace ringsched {

namespace {

struct Job {
  Queries queries;
  Keys keys;
};

Job job_of(PlanBuilder& plan, std::uint32_t workers, std::uint32_t r, Step t, LastHelp last) {
  const WorkerId self{r}, partner{(r + workers - t) % workers};
  const Step mirror = workers - t;  // the step at which the partner met this worker, or will
  const bool sees = plan.sees(plan.queries(self), plan.keys(partner));
  const bool is_seen = plan.sees(plan.queries(partner), plan.keys(self));

  if (t == mirror && sees != is_seen && last == LastHelp::Split) {
    if (sees) return {plan.queries(self).part(0), plan.move(plan.keys(partner), self)};
    return {plan.move(plan.queries(partner).part(1), self), plan.keys(self)};
  }
  const bool partner_helped = t > mirror && !is_seen;
  if (sees && !partner_helped) return {plan.queries(self), plan.move(plan.keys(partner), self)};
  const bool can_help = t < mirror && is_seen;
  if (!sees && can_help) return {plan.move(plan.queries(partner), self), plan.keys(self)};
  return {};
}

}  // namespace

void balance_with_helpers(const Problem& problem, PlanBuilder& plan, LastHelp last) {
  const std::uint32_t workers = problem.workers;
  std::vector<Partial> helped;  // for others, one step ago
  std::vector<Job> jobs(workers);
  for (Step t = 0; t <= workers; ++t) {
    plan.step(t);
    for (Partial& partial : helped) partial = plan.move(partial, partial.owner);
    for (std::uint32_t r = 0; r < workers; ++r)
      jobs[r] = t < workers ? job_of(plan, workers, r, t, last) : Job{};

    std::vector<Partial> helping;
    for (const Job& job : jobs) {
      const Partial partial = plan.attend(job.queries, job.keys);
      if (partial.worker == partial.owner) {
        plan.merge(partial);
      } else {
        helping.push_back(partial);
      }
    }
    for (const Partial& partial : helped) plan.merge(partial);
    helped = std::move(helping);
  }
}

void balanced(const Problem& problem, PlanBuilder& plan) {
  balance_with_helpers(problem, plan, LastHelp::Rest);
}

}  // namespace ringsched
