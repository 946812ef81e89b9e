// The first run of a schedule: which chunks of which copy are read by anyone, and when for the last
// time.
#include <algorithm>

#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

void PlanBuilder::survey_move(const Operand& from) {
  // The mask may leave most of them out, but to know that takes memory for all.
  if (copies_.size() >= most_tasks_ / 2)
    fail("this schedule needs more than {} moves; use fewer workers", most_tasks_ / 2);
  copies_.push_back({.parent = from.copy});
  if (has_backward()) paths_.push_back({.attends_when_moved = next_attend_});
}

Partial PlanBuilder::survey_attend(const Operand& q, const Operand& k) {
  const Tile t = tile(q, k);
  tiles_.push_back(t.form == TileForm::Empty ? WorkId{}
                                             : works_.find_or_add(plan_.works, work_of(t)));
  if (t.form == TileForm::Empty) return {};
  mark_used(q.copy, q.view, surveyed_query_moves_);
  mark_used(k.copy, k.view, surveyed_key_moves_);
  if (has_backward() && !k.at_home()) paths_[k.copy].last_attend = next_attend_;
  ++next_attend_;
  ++surveyed_attends_;
  return {q.owner, q.worker, {}, {}};
}

// What is read of a copy was also read of the copy it came from, if only to be sent.
void PlanBuilder::mark_used(std::uint32_t copy, Region view, std::uint64_t& moves) {
  while (copy != ~0u) {
    Copy& c = copies_[copy];
    if (!c.used()) {
      c.first = view.first.value;
      c.end = view.end();
      ++moves;
      if (has_backward() && c.parent != ~0u) {
        CopyPath& parent = paths_[c.parent];
        if (parent.onward == ~0u || parent.onward < copy) {
          parent.onward = copy;
          parent.attends_when_moved_on = paths_[copy].attends_when_moved;
        }
      }
    } else if (c.first <= view.first.value && view.end() <= c.end) {
      return;
    } else {
      c.first = std::min(c.first, view.first.value);
      c.end = std::max(c.end, view.end());
    }
    copy = c.parent;
  }
}

}  // namespace ringsched
