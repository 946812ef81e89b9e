// For code that makes plans: finds regions, pieces and works among those of a plan, or adds them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

Work work_of(const Tile&, std::uint32_t heads);
Work work_of(const Program&, ValueId, Tokens rows, std::uint32_t columns);
// Marks a tensor that a task makes: it holds all terms of its cells.
void mark_complete(Plan&, TensorId);

inline std::uint64_t mix(auto... parts) {
  std::uint64_t sum = 0, factor = 0x9e3779b97f4a7c15u;
  ((sum += static_cast<std::uint64_t>(parts) * factor, factor *= 0xd1342543de82ef95u), ...);
  return (sum ^ sum >> 29) * 0x9e3779b97f4a7c15u >> 32;
}
inline std::uint64_t mix_of(const Region& r) { return mix(r.first.value, r.count); }
inline std::uint64_t mix_of(const Piece& p) {
  return mix(p.value.value, p.rows.value, p.columns.first, p.columns.count);
}
inline std::uint64_t mix_of(const Work& w) {
  return mix(w.rows, w.keys, w.pairs.value, w.bytes.value, w.columns, w.form);
}

// Numbers things by their places in a list.
template <class T, class TId>
class Numbers {
 public:
  TId find_or_add(std::vector<T>& list, const T& x) {
    if (slots_.size() <= 2 * list.size()) grow(list);
    TId& known = slot(list, x);
    if (!known.valid()) {
      known = {static_cast<std::uint32_t>(list.size())};
      list.push_back(x);
    }
    return known;
  }

 private:
  TId& slot(const std::vector<T>& list, const T& x) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mix_of(x) & mask;
    while (slots_[at].valid() && list[slots_[at].value] != x) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow(const std::vector<T>& list) {
    slots_.assign(std::bit_ceil(4 * list.size() + 64), {});
    for (std::size_t i = list.size(); i-- > 0;)
      slot(list, list[i]) = {static_cast<std::uint32_t>(i)};
  }

  std::vector<TId> slots_;  // at most half of them taken
};

class PlanTables {
 public:
  explicit PlanTables(Plan& plan) : plan_(plan) {}
  // For a plan without regions: region w becomes the share of worker w.
  void add_shares() {
    for (std::uint32_t w = 0; w < plan_.layout.workers(); ++w) id(plan_.layout.share({w}));
  }
  RegionId id(const Region& r) { return regions_.find_or_add(plan_.regions, r); }
  PieceId id(const Piece& p) { return pieces_.find_or_add(plan_.pieces, p); }
  WorkId id(const Work& w) { return works_.find_or_add(plan_.works, w); }

 private:
  Plan& plan_;
  Numbers<Region, RegionId> regions_;
  Numbers<Piece, PieceId> pieces_;
  Numbers<Work, WorkId> works_;
};

}  // namespace ringsched
