// The tables of a plan that is being made: finds what is there already, or adds it.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/scheduler/piece_table.hpp"
#include "ringsched/scheduler/region_table.hpp"
#include "ringsched/scheduler/work_table.hpp"

namespace ringsched {

class PlanParts {
 public:
  PlanParts(const Problem&, Layout);  // with what is given, at home on its owners

  Plan plan;

  RegionId region(Region r) {
    const RegionId id = regions_.find_or_add(plan, r);
    if (id.value == token_sets_.size()) token_sets_.emplace_back(plan.layout.ranges(r));
    return id;
  }
  PieceId piece(ValueId value, RegionId rows) { return pieces_.find_or_add(plan, value, rows); }
  RegionId share(WorkerId w) const { return {w.value}; }
  RegionId chunk(std::uint32_t c) const { return regions_.single(c); }
  TensorId given(ValueId value, WorkerId w) const { return given_[value.value][w.value]; }

  Tile tile(RegionId queries, RegionId keys) const {
    return plan.problem.mask.tile(token_sets_[queries.value], token_sets_[keys.value]);
  }
  WorkId work(const Tile& t) {
    return works_.find_or_add(plan.works, work_of(t, plan.problem.heads));
  }
  WorkId work(ValueId, RegionId rows);

 private:
  RegionTable regions_;
  std::vector<TokenSet> token_sets_;  // by region
  WorkTable works_;
  PieceTable pieces_;
  std::vector<std::vector<WorkId>> row_works_;  // by value and region; none: not asked for yet
  std::vector<std::vector<TensorId>> given_;    // by value and worker
};

}  // namespace ringsched
