#include "tape.hpp"

#include <numeric>
#include <utility>

namespace ringsched {

// A pass that says the calls again, with the numbers that copies and results have in the new order.
class Tape::InOrder {
 public:
  explicit InOrder(const Tape& tape)
      : tape_(tape), copies_(tape.copies_.size()), results_(tape.results_) {}

  Tape run() && {
    std::vector<std::uint32_t> order(tape_.stretches_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto step = [&](std::uint32_t i) { return tape_.stretches_[i].step; };
    std::ranges::stable_sort(order, {}, step);
    for (const std::uint32_t i : order) {
      const bool last = i + 1 == order.size();
      tape_.replay(*this, tape_.stretches_[i],
                   last ? tape_.words_.size() : tape_.stretches_[i + 1].from);
    }
    return std::move(out_);
  }

  void step(Step s) {
    if (s != out_.now()) out_.step(s);
  }
  void move(std::uint32_t copy, bool keys, Lane lane) {
    Copy moved = tape_.copies_[copy];
    moved.from = there(moved.from);
    copies_[copy] = out_.move(keys, moved, lane);
  }
  void move_result(std::uint32_t from, std::uint32_t to, WorkerId worker) {
    results_[to] = out_.move_result(results_[from], worker);
  }
  void attend(const Attend& a) {
    results_[a.result] = out_.attend(a.work, there(a.queries), there(a.keys), a.rows, a.key_rows);
    if (a.merged) merge(a.result);
  }
  void merge(std::uint32_t result) { out_.merge(results_[result]); }

 private:
  Place there(Place p) const { return p.at_home() ? p : Place::copy(copies_[p.copy()]); }

  const Tape& tape_;
  std::vector<std::uint32_t> copies_, results_;  // by old number: the new one
  Tape out_;
};

Tape Tape::in_order() const { return InOrder(*this).run(); }

}  // namespace ringsched
