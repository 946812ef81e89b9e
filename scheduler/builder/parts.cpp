#include "parts.hpp"

#include <utility>

namespace ringsched {

PlanParts::PlanParts(const Problem& problem, Layout layout) {
  plan.problem = problem;
  plan.program = program_of(problem);
  plan.layout = std::move(layout);
  regions_.begin(plan);
  for (const Region& share : plan.regions) token_sets_.emplace_back(plan.layout.ranges(share));
  for (std::uint32_t c = 0; c < plan.layout.chunks.size(); ++c) region({{c}, 1});

  known_.resize(plan.program.size());
  given_.resize(plan.program.size());
  for (const ValueId value : plan.program.given) {
    given_[value.value] = static_cast<std::uint32_t>(plan.initial.size());
    for (std::uint32_t w = 0; w < problem.workers; ++w)
      plan.initial.push_back({piece(value, share({w})), WorkerId{w}});
  }
}

PieceId PlanParts::add_piece(ValueId value, RegionId rows) {
  plan.pieces.push_back({value, rows, plan.program[value].all_columns()});
  return {static_cast<std::uint32_t>(plan.pieces.size()) - 1};
}

WorkId PlanParts::add_work(ValueId value, RegionId rows) {
  const Tokens tokens = plan.layout.rows(plan.regions[rows.value]);
  return works_.find_or_add(
      plan.works, work_of(plan.program, value, tokens, plan.program[value].columns.count));
}

}  // namespace ringsched
