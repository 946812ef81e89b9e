#include "parts.hpp"

#include <utility>

namespace ringsched {

PlanParts::PlanParts(const Problem& problem, Layout layout) {
  plan.problem = problem;
  plan.program = program_of(problem);
  plan.layout = std::move(layout);
  const std::uint32_t workers = problem.workers;
  single_.resize(plan.layout.chunks.size());
  share_from_.resize(plan.layout.chunks.size());
  for (std::uint32_t w = 0; w < workers; ++w) {
    const Region share = plan.layout.share(WorkerId{w});
    (share.count == 1 ? single_ : share_from_)[share.first.value] = add_region(share);
  }
  for (std::uint32_t c = 0; c < single_.size(); ++c)
    if (!single_[c].valid()) single_[c] = add_region({{c}, 1});

  row_works_.resize(plan.program.size());
  given_.resize(plan.program.size());
  for (const ValueId value : plan.program.given)
    for (std::uint32_t w = 0; w < workers; ++w) {
      given_[value.value].push_back({static_cast<std::uint32_t>(plan.initial.size())});
      plan.initial.push_back({piece(value, share({w})), WorkerId{w}});
    }
}

RegionId PlanParts::region(Region r) {
  const RegionId likely = (r.count == 1 ? single_ : share_from_)[r.first.value];
  if (likely.valid() && plan.regions[likely.value] == r) return likely;
  const std::uint64_t key = (std::uint64_t{r.first.value} << 32) | r.count;
  const auto [at, is_new] = other_regions_.try_emplace(key);
  if (is_new) at->second = add_region(r);
  return at->second;
}

RegionId PlanParts::add_region(Region r) {
  plan.regions.push_back(r);
  token_sets_.emplace_back(plan.layout.ranges(r));
  return {static_cast<std::uint32_t>(plan.regions.size()) - 1};
}

WorkId PlanParts::work(ValueId value, RegionId rows) {
  std::vector<WorkId>& known = row_works_[value.value];
  if (known.size() <= rows.value) known.resize(plan.regions.size());
  WorkId& id = known[rows.value];
  if (!id.valid())
    id = works_.find_or_add(plan.works,
                            work_of(plan.program, value, plan.layout.rows(plan.regions[rows.value]),
                                    plan.program[value].columns.count));
  return id;
}

}  // namespace ringsched
