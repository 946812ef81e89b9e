// DeepSpeed-Ulysses (Jacobs et al. 2023): an all-to-all takes the queries, keys and values from
// some tokens of all heads to all tokens of some heads. Each worker then has an attention of its
// own, without any message or merge. A second all-to-all brings the results back. With pad=1 the
// problem has dummy heads before it comes here, so that all workers have equally many.
#include "heads.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

void ulysses(const Problem& problem, PlanBuilder& plan, const Arguments&) {
  if (problem.heads < problem.workers)
    fail(
        "ulysses: {0} heads are too few for {1} workers; use at most {0} workers (the "
        "heads need not divide evenly among them), or ulysses:pad=1, which pads the heads",
        problem.heads, problem.workers);
  std::vector<WorkerId> all;
  for (std::uint32_t w = 0; w < problem.workers; ++w) all.push_back(WorkerId{w});

  plan.step(0);
  const auto [queries, keys] = exchange_tokens_for_heads(problem, plan, all);
  PlanBuilder by_heads = plan.view(queries, keys);
  for (const WorkerId w : all)
    by_heads.merge(by_heads.attend(by_heads.queries(w), by_heads.keys(w)));

  plan.step(1);
  exchange_heads_for_tokens(plan, all, by_heads.merged());
}

}  // namespace ringsched
