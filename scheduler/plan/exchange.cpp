#include "ringsched/scheduler/exchange.hpp"

#include <algorithm>

namespace ringsched {

namespace {

Region common(Region a, Region b) {
  const std::uint32_t first = std::max(a.first.value, b.first.value);
  const std::uint32_t end = std::min(a.end(), b.end());
  return {{first}, end > first ? end - first : 0};
}

ColumnRange common(ColumnRange a, ColumnRange b) {
  const std::uint32_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : 0};
}

const Task& member(const Plan& plan, const Exchange& e, std::uint32_t number) {
  return plan.tasks[e.first.value + number];
}

}  // namespace

std::vector<Share> shares_of(const Plan& plan, const Exchange& e) {
  struct Given {
    std::uint32_t member;
    Region rows;
    ColumnRange columns;
  };
  std::vector<Given> given;
  for (std::uint32_t m = 0; m < e.members; ++m)
    if (const TensorId t = member(plan, e, m).inputs[0]; t.valid()) {
      const Tensor tensor = plan.tensor(t);
      given.push_back({m, plan.regions[tensor.rows.value], tensor.columns});
    }
  std::vector<Share> out;
  for (std::uint32_t to = 0; to < e.members; ++to) {
    const Piece& wanted = plan.piece(member(plan, e, to));
    for (const Given& g : given) {
      const Share s{g.member, to, common(g.rows, plan.regions[wanted.rows.value]),
                    common(g.columns, wanted.columns)};
      if (s.rows.count > 0 && s.columns.count > 0) out.push_back(s);
    }
  }
  return out;
}

bool adds_up(const Plan& plan, const Exchange& e) {
  for (std::uint32_t m = 0; m < e.members; ++m)
    if (const TensorId t = member(plan, e, m).inputs[0]; t.valid()) return !plan.tensor(t).complete;
  return false;
}

bool is_run_at_giver(const Plan& plan, const Exchange& e, const Share& s) {
  return plan.tensor(member(plan, e, s.from).inputs[0]).columns == s.columns;
}

bool is_run_at_getter(const Plan& plan, const Exchange& e, const Share& s) {
  return plan.piece(member(plan, e, s.to)).columns == s.columns;
}

std::vector<Staging> staging_of(const Plan& plan, const Exchange& e,
                                const std::vector<Share>& shares) {
  const bool adds = adds_up(plan, e);
  const ValueId value = plan.value(member(plan, e, 0));
  std::vector<Staging> out(e.members);
  for (const Share& s : shares) {
    if (s.from == s.to) continue;
    const Bytes bytes = plan.program.bytes(value, plan.layout.rows(s.rows), s.columns.count);
    if (!is_run_at_giver(plan, e, s)) out[s.from].given += bytes;
    if (adds || !is_run_at_getter(plan, e, s)) out[s.to].got += bytes;
  }
  return out;
}

}  // namespace ringsched
