// Zigzag ring attention (ring-flash-attention, Llama 3): worker r owns part r and part 2W-1-r of
// 2W. Step 0 is causal over the worker's own pair of parts. Later, all own queries see keys of a
// lower worker, but only their front half; only the back half of the queries sees keys of a higher
// worker, but all of them. Either way each step is half a block without any mask.
#include "ring.hpp"

namespace ringsched {

namespace {

Partial attend_visible_half(PlanBuilder& plan, Queries queries, Keys keys) {
  constexpr std::uint32_t front = 0, back = 1;
  if (!plan.sees(queries, keys.half(back))) {
    keys = keys.half(front);
  } else if (!plan.sees(queries.half(front), keys)) {
    queries = queries.half(back);
  }
  return plan.attend(queries, keys);
}

}  // namespace

Layout zigzag_layout(const Problem& p, const Arguments& given) {
  return given["shares"] == 0 ? zigzag(p.workers, p.tokens) : zigzag_of_documents(p);
}

void zigzag(const Problem& problem, PlanBuilder& plan, bool all) {
  std::vector<Keys> visiting = keys_at_home(plan, problem.workers);
  for (Step s = 0; s < problem.workers; ++s) {
    plan.step(s);
    if (s > 0) visiting = rotate(plan, visiting, all);
    for (std::uint32_t r = 0; r < problem.workers; ++r)
      plan.merge(attend_visible_half(plan, plan.queries(WorkerId{r}), visiting[r]));
  }
}

void zigzag(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  zigzag(problem, plan, sends_all(given));
}

}  // namespace ringsched
