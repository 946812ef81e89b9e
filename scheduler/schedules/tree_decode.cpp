// Tree decoding (Shyam et al. 2024): after each worker has attended its part of the cache, pairs of
// workers merge their partial results, then pairs of pairs, in log2 W steps; first inside each
// node, then across nodes. The root, which is the worker with the new tokens, sends the result to
// all.
#include <algorithm>

#include "decode.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

namespace {

// One step: of these workers, every second one gives its partial to the one before it, and leaves.
void merge_pairs(PlanBuilder& plan, std::vector<WorkerId>& workers,
                 std::vector<Partial>& partials) {
  std::vector<WorkerId> left;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (i % 2 == 0) {
      left.push_back(workers[i]);
      continue;
    }
    Partial& at = partials[left.back().value];
    at = plan.combine(at, plan.move(partials[workers[i].value], left.back()));
  }
  workers = std::move(left);
}

}  // namespace

void tree_decode(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  plan.step(0);
  std::vector<Partial> partials = attend_own_part(problem, plan);
  // By node, from the last worker to the first: the last is the root.
  std::vector<std::vector<WorkerId>> nodes((problem.workers - 1) / given["node"] + 1);
  for (std::uint32_t w = problem.workers; w-- > 0;) nodes[w / given["node"]].push_back(WorkerId{w});
  Step step = 0;
  while (std::ranges::any_of(nodes, [](const auto& node) { return node.size() > 1; })) {
    plan.step(++step);
    for (std::vector<WorkerId>& node : nodes) merge_pairs(plan, node, partials);
  }
  std::vector<WorkerId> heads;
  for (std::size_t n = nodes.size(); n-- > 0;) heads.push_back(nodes[n][0]);
  while (heads.size() > 1) {
    plan.step(++step);
    merge_pairs(plan, heads, partials);
  }
  plan.merge(partials.back());
  if (given["to"] != 0 || problem.workers == 1) return;
  plan.step(++step);
  std::vector<Merged> root(problem.workers);
  root.back() = plan.merged().back();
  plan.exchange(root, results_for(plan, problem.workers, true));
}

}  // namespace ringsched
