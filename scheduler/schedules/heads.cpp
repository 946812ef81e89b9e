#include "heads.hpp"

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

ColumnRange part_of_heads(std::uint32_t heads, std::uint32_t i, std::uint32_t n) {
  const auto before = [&](std::uint32_t part) { return (heads * part + n - 1) / n; };
  return {before(i), before(i + 1) - before(i)};
}

Problem with_padded_heads(Problem p, std::uint32_t n) {
  const std::uint32_t group = p.heads / p.kv_heads;
  for (std::uint32_t heads = (p.heads + n - 1) / n * n; heads <= kMaxHeads; heads += n)
    for (std::uint32_t kv_heads = p.kv_heads; kv_heads <= heads / group; ++kv_heads)
      if (heads % kv_heads == 0) {
        p.heads = heads;
        p.kv_heads = kv_heads;
        return p;
      }
  fail("{} heads cannot be padded to a multiple of {} workers; a problem has at most {} heads",
       p.heads, n, kMaxHeads);
}

ByHeads exchange_tokens_for_heads(const Problem& problem, PlanBuilder& plan,
                                  std::span<const WorkerId> workers) {
  const auto n = static_cast<std::uint32_t>(workers.size());
  const Region first = plan.queries(workers.front()).view, last = plan.queries(workers.back()).view;
  const Region all{first.first, last.end() - first.first.value};
  ByHeads has;
  std::vector<Wanted> queries, keys;
  for (std::uint32_t i = 0; i < n; ++i) {
    const ColumnRange heads = part_of_heads(problem.heads, i, n);
    has.queries.push_back(plan.queries(workers[i]));
    has.keys.push_back(plan.keys(workers[i]));
    queries.push_back({workers[i], all, heads});
    keys.push_back({workers[i], all, heads.grouped(problem.heads / problem.kv_heads)});
  }
  return {plan.exchange(has.queries, queries), plan.exchange(has.keys, keys)};
}

void exchange_heads_for_tokens(PlanBuilder& plan, std::span<const WorkerId> workers,
                               std::span<const Merged> results) {
  std::vector<Wanted> wanted;
  for (const WorkerId w : workers) {
    const Queries home = plan.queries(w);
    wanted.push_back({w, home.view, home.heads});
  }
  plan.exchange(results, wanted);
}

}  // namespace ringsched
