#include "ringsched/scheduler/collectives.hpp"

namespace ringsched {

namespace {

// By worker, then by owner: what that has for this worker. The nearest owner first, so that at no
// time all send to the same worker.
template <class Operand, class HomeOf>
std::vector<std::vector<Operand>> gathered(PlanBuilder& plan, std::uint32_t workers, HomeOf home) {
  std::vector<std::vector<Operand>> out(workers, std::vector<Operand>(workers));
  for (std::uint32_t distance = 0; distance < workers; ++distance)
    for (std::uint32_t w = 0; w < workers; ++w) {
      const std::uint32_t owner = (w + workers - distance) % workers;
      out[w][owner] = plan.move(home(WorkerId{owner}, w), WorkerId{w});
    }
  return out;
}

}  // namespace

std::vector<std::vector<Keys>> all_gather_keys(PlanBuilder& plan, std::uint32_t workers) {
  return gathered<Keys>(plan, workers, [&](WorkerId owner, auto) { return plan.keys(owner); });
}

std::vector<std::vector<Queries>> all_gather_queries(PlanBuilder& plan, std::uint32_t workers) {
  return gathered<Queries>(plan, workers,
                           [&](WorkerId owner, auto) { return plan.queries(owner); });
}

std::vector<std::vector<Keys>> all_gather_keys_by_ring(PlanBuilder& plan, std::uint32_t workers,
                                                       Step first) {
  std::vector<std::vector<Keys>> out(workers, std::vector<Keys>(workers));
  for (std::uint32_t w = 0; w < workers; ++w) out[w][w] = plan.keys(WorkerId{w});
  for (std::uint32_t hop = 1; hop < workers; ++hop) {
    plan.step(first + hop - 1);
    for (std::uint32_t w = 0; w < workers; ++w) {
      const std::uint32_t before = (w + workers - 1) % workers;
      const std::uint32_t owner = (w + workers - hop) % workers;
      out[w][owner] = plan.move(out[before][owner], WorkerId{w});
    }
  }
  return out;
}

std::vector<std::vector<Queries>> all_to_all_queries(PlanBuilder& plan, std::uint32_t workers) {
  return gathered<Queries>(
      plan, workers, [&](WorkerId owner, std::uint32_t w) { return plan.queries(owner).part(w); });
}

void reduce_scatter(PlanBuilder& plan, std::vector<Partial> partials) {
  for (Partial& p : partials) p = plan.move(p, p.owner);
  for (const Partial& p : partials) plan.merge(p);
}

}  // namespace ringsched
