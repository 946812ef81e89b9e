// A ring in each node, and a ring of nodes around them (LoongTrain, Gu et al. 2024). Keys go round
// their node. What a worker has at the start of such a lap also goes to the same place of the next
// node, on its own lane, and has the whole lap to get there.
#include "ring.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

namespace {

std::uint32_t node_size(std::uint32_t workers, std::uint32_t given) {
  std::uint32_t size = given > 0 ? given : 8;
  while (given == 0 && workers % size != 0) --size;
  if (workers % size != 0)
    fail("double-ring: node={} does not divide {} workers; nodes must be of equal size", given,
         workers);
  return size;
}

}  // namespace

Layout double_ring_layout(const Problem& p, const Arguments& given) {
  return given["ring"] == 0 ? contiguous(p.workers, p.tokens) : zigzag(p.workers, p.tokens);
}

void double_ring(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  const std::uint32_t node = node_size(problem.workers, given["node"]);
  const Lane between_nodes = plan.lane("between nodes");
  std::vector<Keys> visiting = keys_at_home(plan, problem.workers);
  for (Step lap = 0; lap < problem.workers / node; ++lap) {
    plan.step(lap * node);
    std::vector<Keys> next(problem.workers);
    for (std::uint32_t r = 0; r < problem.workers; ++r) {
      const std::uint32_t to = (r + node) % problem.workers;
      next[to] = plan.move(visiting[r], WorkerId{to}, {between_nodes, (lap + 1) * node});
    }
    for (std::uint32_t first = 0; first < problem.workers; first += node) {
      PlanBuilder inside = plan.view(std::span(visiting).subspan(first, node));
      if (given["ring"] == 0)
        ring(inside.problem(), inside, false);
      else
        zigzag(inside.problem(), inside, false);
    }
    visiting = std::move(next);
  }
}

}  // namespace ringsched
