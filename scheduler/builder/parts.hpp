// The tables of a plan that is being made: finds what is there already, or adds it.
#pragma once

#include <cstdint>
#include <vector>

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
  PieceId piece(ValueId value, RegionId rows) {
    PieceId& id = known(value, rows).piece;
    return id.valid() ? id : id = add_piece(value, rows);
  }
  RegionId share(WorkerId w) const { return {w.value}; }
  RegionId chunk(std::uint32_t c) const { return regions_.single(c); }
  TensorId given(ValueId value, WorkerId w) const { return {given_[value.value] + w.value}; }

  Tile tile(RegionId queries, RegionId keys) const {
    return plan.problem.mask.tile(token_sets_[queries.value], token_sets_[keys.value]);
  }
  WorkId work(const Tile& t) {
    return works_.find_or_add(plan.works, work_of(t, plan.problem.heads));
  }
  WorkId work(ValueId value, RegionId rows) {
    WorkId& id = known(value, rows).work;
    return id.valid() ? id : id = add_work(value, rows);
  }

 private:
  // The rows of a value, all columns of them; none: not asked for yet.
  struct Known {
    PieceId piece;
    WorkId work;
  };
  Known& known(ValueId value, RegionId rows) {
    std::vector<Known>& all = known_[value.value];
    if (all.size() <= rows.value) all.resize(plan.regions.size());
    return all[rows.value];
  }
  PieceId add_piece(ValueId, RegionId rows);
  WorkId add_work(ValueId, RegionId rows);

  RegionTable regions_;
  std::vector<TokenSet> token_sets_;  // by region
  WorkTable works_;
  std::vector<std::vector<Known>> known_;  // by value and region
  std::vector<std::uint32_t> given_;       // by value: the initial tensor of worker 0
};

}  // namespace ringsched
