// For whatever makes plans: the id of a Piece, found among those of a plan or added; and the bit of
// a tensor with all its terms.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Marks a tensor that a task makes: it holds all terms of its cells.
inline void mark_complete(Plan& plan, TensorId t) {
  const TaskId maker = plan.producer(t);
  if (!maker.valid()) return;
  Task& task = plan.tasks[maker.value];
  const unsigned bit = t == plan.output(maker) ? 1 : 2;
  task.completes = static_cast<std::uint8_t>(task.completes | bit) & 3u;
}

class PieceTable {
 public:
  PieceId find_or_add(Plan& plan, const Piece& piece) {
    if (first_.size() <= piece.value.value) first_.resize(plan.program.size());
    std::vector<PieceId>& known = first_[piece.value.value];
    if (known.size() <= piece.rows.value) known.resize(plan.regions.size());
    PieceId& likely = known[piece.rows.value];
    if (!likely.valid()) return likely = add(plan, piece);
    if (plan.pieces[likely.value] == piece) return likely;
    PieceId& other =
        others_[{piece.value.value, piece.rows.value, piece.columns.first, piece.columns.count}];
    if (!other.valid()) other = add(plan, piece);
    return other;
  }

 private:
  static PieceId add(Plan& plan, const Piece& piece) {
    plan.pieces.push_back(piece);
    return {static_cast<std::uint32_t>(plan.pieces.size()) - 1};
  }

  std::vector<std::vector<PieceId>> first_;  // by value and region: the first one of them
  std::map<std::array<std::uint32_t, 4>, PieceId> others_;
};

}  // namespace ringsched
