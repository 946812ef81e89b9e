#include "survey.hpp"

#include <algorithm>

namespace ringsched {

namespace {

class SurveyPass {
 public:
  SurveyPass(const Tape& tape, const Plan& plan, bool backward)
      : tape_(tape), plan_(plan), backward_(backward) {
    out_.uses = CallColumn<Survey::Use>(tape.size());
    if (backward) out_.paths = CallColumn<Survey::Path>(tape.size());
  }

  Survey run() && {
    tape_.for_each([&](CallId id, const Call& c) {
      if (c.what == Call::What::Attend) {
        mark_used(c.from, plan_.regions[c.rows.value], out_.query_moves);
        mark_used(c.keys, plan_.regions[c.key_rows.value], out_.key_moves);
        if (backward_) out_.paths[c.keys].last_attend = attends();
        ++out_.attends;
      } else if (c.what == Call::What::Move && backward_) {
        out_.paths[id].attends_when_moved = attends();
      } else if (c.what == Call::What::MoveResult) {
        ++out_.returns;
      }
    });
    return std::move(out_);
  }

 private:
  std::uint32_t attends() const { return static_cast<std::uint32_t>(out_.attends); }

  // What is read of a move was also read of what it moved, if only to be sent.
  void mark_used(CallId at, Region rows, std::uint64_t& moves) {
    for (; tape_[at].what == Call::What::Move; at = tape_[at].from) {
      Survey::Use& use = out_.uses[at];
      if (!use.any()) {
        use = {rows.first.value, rows.end()};
        ++moves;
        if (!backward_) continue;
        CallId& onward = out_.paths[tape_[at].from].onward;
        if (!onward.valid() || is_later(at, onward)) onward = at;
      } else if (use.first <= rows.first.value && rows.end() <= use.end) {
        return;
      } else {
        use = {std::min(use.first, rows.first.value), std::max(use.end, rows.end())};
      }
    }
  }

  // In time, which need not be the order of calls.
  bool is_later(CallId a, CallId b) const {
    const auto when = [&](CallId m) { return std::pair(out_.paths[m].attends_when_moved, m); };
    return when(a) > when(b);
  }

  const Tape& tape_;
  const Plan& plan_;
  const bool backward_;
  Survey out_;
};

}  // namespace

Survey survey(const Tape& tape, const Plan& plan, bool backward) {
  return SurveyPass(tape, plan, backward).run();
}

}  // namespace ringsched
