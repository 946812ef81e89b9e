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

struct Cells {
  Region rows;
  ColumnRange columns;

  bool empty() const { return rows.count == 0 || columns.count == 0; }
  bool contains(const Cells& c) const {
    return rows.contains(c.rows) && columns.contains(c.columns);
  }
  bool meets(const Cells& c) const {
    return common(rows, c.rows).count > 0 && common(columns, c.columns).count > 0;
  }
  // The smallest rectangle with both.
  Cells around(const Cells& c) const {
    const std::uint32_t row = std::min(rows.first.value, c.rows.first.value);
    const std::uint32_t column = std::min(columns.first, c.columns.first);
    return {{{row}, std::max(rows.end(), c.rows.end()) - row},
            {column, std::max(columns.end(), c.columns.end()) - column}};
  }
  friend bool operator==(const Cells&, const Cells&) = default;
};

std::vector<Cells> given_cells(const Plan& plan, const Exchange& e) {
  std::vector<Cells> out;
  for (std::uint32_t m = 0; m < e.members; ++m)
    if (const TensorId t = member(plan, e, m).inputs[0]; t.valid()) {
      const Tensor tensor = plan.tensor(t);
      out.push_back({plan.regions[tensor.rows.value], tensor.columns});
    }
  return out;
}

std::vector<Cells> wanted_cells(const Plan& plan, const Exchange& e) {
  std::vector<Cells> out;
  for (std::uint32_t m = 0; m < e.members; ++m) {
    const Piece& piece = plan.piece(member(plan, e, m));
    const Cells wanted = {plan.regions[piece.rows.value], piece.columns};
    if (!wanted.empty()) out.push_back(wanted);
  }
  return out;
}

// Does this hold for any two?
template <class Holds>
bool for_all_pairs(const std::vector<Cells>& cells, Holds holds) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!holds(cells[i], cells[j])) return false;
  return true;
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

bool combines(const Plan& plan, const Exchange& e) {
  return adds_up(plan, e) &&
         !for_all_pairs(given_cells(plan, e),
                        [](const Cells& a, const Cells& b) { return !a.meets(b); });
}

ExchangeForm form_of(const Plan& plan, const Exchange& e) {
  const std::vector<Cells> given = given_cells(plan, e), wanted = wanted_cells(plan, e);
  if (given.empty() || wanted.empty()) return ExchangeForm::Other;
  const bool all_give = given.size() == e.members, all_get = wanted.size() == e.members;
  const bool same = std::all_of(wanted.begin(), wanted.end(),
                                [&](const Cells& c) { return c == wanted.front(); });
  const auto apart = [](const Cells& a, const Cells& b) { return !a.meets(b); };
  if (combines(plan, e)) {
    Cells all = wanted.front();
    for (const Cells& c : wanted) all = all.around(c);
    if (all_give &&
        std::all_of(given.begin(), given.end(), [&](const Cells& g) { return g.contains(all); })) {
      if (wanted.size() == 1) return ExchangeForm::Reduce;
      if (all_get && same) return ExchangeForm::AllReduce;
      if (all_get && for_all_pairs(wanted, apart)) return ExchangeForm::ReduceScatter;
    }
  } else {
    if (all_get && same)
      return given.size() > 1 ? ExchangeForm::AllGather : ExchangeForm::Broadcast;
    if (wanted.size() == 1) return ExchangeForm::Gather;
    if (given.size() == 1 && for_all_pairs(wanted, apart)) return ExchangeForm::Scatter;
  }
  return for_all_pairs(wanted, [](const Cells& a, const Cells& b) { return a == b || !a.meets(b); })
             ? ExchangeForm::AllToAll
             : ExchangeForm::Other;
}

bool is_run_at_giver(const Plan& plan, const Exchange& e, const Share& s) {
  return plan.tensor(member(plan, e, s.from).inputs[0]).columns == s.columns;
}

bool is_run_at_getter(const Plan& plan, const Exchange& e, const Share& s) {
  return plan.piece(member(plan, e, s.to)).columns == s.columns;
}

std::vector<Staging> staging_of(const Plan& plan, const Exchange& e,
                                const std::vector<Share>& shares, bool own) {
  const bool adds = adds_up(plan, e);
  const ValueId value = plan.value(member(plan, e, 0));
  std::vector<Staging> out(e.members);
  std::vector<std::int64_t> before{0};  // tokens in all chunks before: shares may have many chunks
  for (const TokenRange& chunk : plan.layout.chunks) before.push_back(before.back() + chunk.count);
  for (const Share& s : shares) {
    if (s.from == s.to && !own) continue;
    const Tokens rows{before[s.rows.end()] - before[s.rows.first.value]};
    const Bytes bytes = plan.program.bytes(value, rows, s.columns.count);
    if (!is_run_at_giver(plan, e, s)) out[s.from].given += bytes;
    if (adds || !is_run_at_getter(plan, e, s)) out[s.to].got += bytes;
  }
  return out;
}

}  // namespace ringsched
