// A plan under construction, and the ids of its parts.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

class PlanParts {
 public:
  // With initial tensors, at home on their owners.
  PlanParts(const Problem& problem, Layout layout) {
    plan.problem = problem;
    plan.program = program_of(problem);
    plan.layout = std::move(layout);
    tables_.add_shares();
    for (std::uint32_t c = 0; c < plan.layout.chunks.size(); ++c)
      chunks_.push_back(region({{c}, 1}));
    if (problem.decodes()) new_rows_ = region(ringsched::query_rows(problem, plan.layout, {0}));
    known_.resize(plan.program.size());
    given_.resize(plan.program.size());
    for (const ValueId value : plan.program.given) {
      given_[value.value] = static_cast<std::uint32_t>(plan.initial.size());
      for (std::uint32_t w = 0; w < problem.workers; ++w)
        plan.initial.push_back(
            {piece(value, value == attention::kQuery ? query_rows({w}) : share({w}),
                   plan.program[value].all_columns()),
             WorkerId{w}});
    }
  }

  Plan plan;

  RegionId region(Region r) { return tables_.id(r); }
  RegionId share(WorkerId w) const { return {w.value}; }
  // Of the queries that a worker is given.
  RegionId query_rows(WorkerId w) const { return new_rows_.valid() ? new_rows_ : share(w); }
  RegionId chunk(std::uint32_t c) const { return chunks_[c]; }
  TensorId given(ValueId value, WorkerId w) const { return {given_[value.value] + w.value}; }
  // Another initial tensor, before the first task.
  TensorId keep(ValueId value, RegionId rows, ColumnRange columns, WorkerId w) {
    plan.initial.push_back({piece(value, rows, columns), w});
    return {static_cast<std::uint32_t>(plan.initial.size()) - 1};
  }

  const Tile& tile(RegionId queries, RegionId keys) {
    if (queries == tile_of_[0] && keys == tile_of_[1]) return tile_;
    for (std::size_t r = token_sets_.size(); r < plan.regions.size(); ++r)
      token_sets_.emplace_back(plan.layout.ranges(plan.regions[r]));
    tile_of_[0] = queries;
    tile_of_[1] = keys;
    return tile_ = plan.problem.mask.tile(token_sets_[queries.value], token_sets_[keys.value]);
  }
  WorkId work(const Tile& t, std::uint32_t heads) {
    const Work w = work_of(t, heads);
    WorkId& likely = likely_[w.form == TileForm::Full ? 0 : 1];
    if (!likely.valid() || plan.works[likely.value] != w) likely = tables_.id(w);
    return likely;
  }
  PieceId piece(ValueId value, RegionId rows, ColumnRange columns) {
    if (!has_all(value, columns)) return tables_.id(Piece{value, rows, columns});
    return known(value, rows).piece;
  }
  WorkId work(ValueId value, RegionId rows, ColumnRange columns) {
    const auto find = [&] {
      return tables_.id(
          work_of(plan.program, value, plan.layout.rows(plan.regions[rows.value]), columns.count));
    };
    if (!has_all(value, columns)) return find();
    Known& k = known(value, rows);
    if (!k.work.valid()) k.work = find();
    return k.work;
  }

 private:
  struct Known {
    PieceId piece;
    WorkId work;
  };
  bool has_all(ValueId value, ColumnRange columns) const {
    return columns.count == plan.program[value].columns.count;
  }
  Known& known(ValueId value, RegionId rows) {
    std::vector<Known>& all = known_[value.value];
    if (all.size() <= rows.value) all.resize(plan.regions.size());
    Known& k = all[rows.value];
    if (!k.piece.valid())
      k.piece = tables_.id(Piece{value, rows, plan.program[value].all_columns()});
    return k;
  }

  PlanTables tables_{plan};
  RegionId new_rows_;  // in decoding
  std::vector<RegionId> chunks_;
  WorkId likely_[2];     // of tiles, the last ones of two sorts
  RegionId tile_of_[2];  // the last requested tile
  Tile tile_;
  std::vector<TokenSet> token_sets_;       // by region, as far as tiles were requested
  std::vector<std::vector<Known>> known_;  // by value and region; none: not requested yet
  std::vector<std::uint32_t> given_;       // by value: the initial tensor of worker 0
};

}  // namespace ringsched
