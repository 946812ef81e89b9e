// All-gather attention (Llama 3, Dubey et al. 2024; TransformerEngine): every worker gets the keys
// and values of all tokens, some heads at a time, and attends them with its own queries. The next
// heads arrive while it attends these. Nothing is merged. In the backward pass the keys come again,
// and their gradients are added up on their way home.
#include <algorithm>

#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

Layout all_gather_layout(const Problem& p, const Arguments& given) {
  return given["shares"] == 0   ? contiguous(p.workers, p.tokens)
         : given["shares"] == 1 ? zigzag(p.workers, p.tokens)
                                : zigzag_of_documents(p);
}

void all_gather(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  const std::uint32_t group = problem.heads / problem.kv_heads;
  const std::uint32_t stride = given["stride"] > 0 ? given["stride"] : problem.kv_heads;
  if (stride > problem.kv_heads)
    fail("all-gather: stride={} is more than the {} key/value heads; use at most {}", stride,
         problem.kv_heads, problem.kv_heads);
  const Region last = plan.keys(WorkerId{problem.workers - 1}).view;
  const Region all{{0}, last.end()};
  Step step = 0;
  for (std::uint32_t first = 0; first < problem.kv_heads; first += stride) {
    plan.step(step++);
    const ColumnRange heads{first, std::min(stride, problem.kv_heads - first)};
    std::vector<Keys> own;
    std::vector<Wanted> wanted;
    for (std::uint32_t w = 0; w < problem.workers; ++w) {
      own.push_back(plan.keys(WorkerId{w}));
      wanted.push_back({WorkerId{w}, all, heads});
    }
    const std::vector<Keys> keys = plan.exchange(own, wanted, {.again = true});
    for (std::uint32_t w = 0; w < problem.workers; ++w) {
      const Queries queries =
          plan.only(plan.queries(WorkerId{w}), {heads.first * group, heads.count * group});
      plan.merge(plan.attend(queries, keys[w]));
    }
  }
}

}  // namespace ringsched
