// For whatever makes plans: the id of a Piece, found among those of a plan or added; and the bit of
// a tensor with all its terms.
#pragma once

#include <cstdint>
#include <unordered_map>
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
  // Of all columns of a value.
  PieceId find_or_add(Plan& plan, ValueId value, RegionId rows) {
    if (whole_.size() <= value.value) whole_.resize(plan.program.size());
    std::vector<PieceId>& known = whole_[value.value];
    if (known.size() <= rows.value) known.resize(plan.regions.size());
    PieceId& id = known[rows.value];
    if (!id.valid()) id = add(plan, {value, rows, plan.program[value].all_columns()});
    return id;
  }

 private:
  static PieceId add(Plan& plan, const Piece& piece) {
    plan.pieces.push_back(piece);
    return {static_cast<std::uint32_t>(plan.pieces.size()) - 1};
  }

  std::vector<std::vector<PieceId>> whole_;  // by value and region
};

}  // namespace ringsched
