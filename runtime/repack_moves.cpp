#include "repack_moves.hpp"

#include "ringsched/scheduler/exchange.hpp"

namespace ringsched {

RepackMoves::RepackMoves(const Plan& plan, const Exchange& repack,
                         const std::function<std::byte*(TensorId)>& place)
    : plan_(plan), value_(plan.value(plan.tasks[repack.first.value])) {
  const auto cells = [&](TensorId tensor, Region rows, ColumnRange columns) {
    const Tensor t = plan.tensor(tensor);
    return rectangle(plan, place(tensor), {t.value, t.rows, t.columns}, rows, columns);
  };
  if (adds_up(plan, repack))
    for (std::uint32_t id = repack.first.value; id < repack.end(); ++id) {
      const Piece& made = plan.piece(plan.tasks[id]);
      const Region rows = plan.regions[made.rows.value];
      if (rows.count > 0) sums_.push_back(cells(plan.output({id}), rows, made.columns));
    }
  for (const Share& s : shares_of(plan, repack)) {
    const TensorId given = plan.tasks[repack.first.value + s.from].inputs[0];
    const TensorId made = plan.output({repack.first.value + s.to});
    moves_.push_back({cells(given, s.rows, s.columns), cells(made, s.rows, s.columns)});
  }
}

void RepackMoves::run() const {
  for (const Rectangle& sum : sums_) clear(plan_, value_, sum);
  for (const Move& m : moves_) {
    if (sums_.empty())
      copy(m.from, m.to);
    else
      add(plan_, value_, m.from, m.to);
  }
}

}  // namespace ringsched
