#include "survey.hpp"

#include <algorithm>

namespace ringsched {

Survey::Survey(const Tape& tape, const Plan& plan, bool backward)
    : uses(tape.size()), paths(backward ? tape.size() : 0) {
  tape.for_each([&](CallId id, const Call& c) {
    if (c.what == Call::What::Attend) {
      mark_used(tape, c.from, plan.regions[c.rows.value], query_moves, backward);
      mark_used(tape, c.keys, plan.regions[c.key_rows.value], key_moves, backward);
      if (backward) paths[c.keys].last_attend = attends;
      ++attends;
    } else if (c.what == Call::What::Move) {
      if (backward) paths[id].attends_when_moved = attends;
      if (c.always)
        mark_used(tape, id, plan.regions[tape.origin(c).rows.value],
                  c.of_keys ? key_moves : query_moves, backward);
    } else if (c.what == Call::What::MoveResult) {
      ++returns;
    } else if (Tape::is_member(c)) {
      const bool results = Tape::gives_results(c);
      ++(results ? result_members : members);
      if (c.keys == id) (results ? result_exchanges : exchanges).push_back(id);
      if (c.what == Call::What::ResultMember && c.from.valid()) given_on.insert(c.from.value);
    }
  });
  if (backward) find_open_members(tape);
}

void Survey::find_open_members(const Tape& tape) {
  for (const CallId first : exchanges) {
    if (!tape[first].of_keys) continue;
    std::uint32_t open = 0;
    bool any_onward = false;
    for (std::uint32_t i = 0; i < tape.members(first); ++i) {
      const Path& path = paths[{first.value + i}];
      open += path.last_attend != ~0u ? 1 : 0;
      any_onward = any_onward || path.onward.valid();
    }
    if (!any_onward) open_members[first.value] = open;
  }
}

// Whatever tasks read of a move, they also read of its source, if only to send it.
void Survey::mark_used(const Tape& tape, CallId at, Region rows, std::uint64_t& moves,
                       bool backward) {
  // In time, which need not be the order of calls.
  const auto when = [&](CallId m) { return std::pair(paths[m].attends_when_moved, m); };
  for (; tape[at].what == Call::What::Move; at = tape[at].from) {
    Use& use = uses[at];
    if (use.any() && use.first <= rows.first.value && rows.end() <= use.end) return;
    if (use.any()) {
      use = {std::min(use.first, rows.first.value), std::max(use.end, rows.end())};
      continue;
    }
    use = {rows.first.value, rows.end()};
    ++moves;
    if (!backward) continue;
    CallId& onward = paths[tape[at].from].onward;
    if (!onward.valid() || when(at) > when(onward)) onward = at;
  }
}

}  // namespace ringsched
