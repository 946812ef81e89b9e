#include "survey.hpp"

#include <algorithm>

namespace ringsched {

namespace {

class SurveyPass {
 public:
  SurveyPass(const Tape& tape, const Plan& plan, bool backward, Survey& out)
      : tape_(tape), plan_(plan), backward_(backward), out_(out) {
    out_.copies.resize(tape.copies().size());
    if (backward) out_.paths.resize(tape.copies().size());
  }

  void step(Step) {}
  void move(std::uint32_t copy, bool, Lane) {
    if (backward_) out_.paths[copy].attends_when_moved = count();
  }
  void move_result(std::uint32_t, std::uint32_t, WorkerId) { ++out_.returns; }
  void attend(const Tape::Attend& a) {
    mark_used(a.queries, plan_.regions[a.rows.value], out_.query_moves);
    mark_used(a.keys, plan_.regions[a.key_rows.value], out_.key_moves);
    if (backward_ && !a.keys.at_home()) out_.paths[a.keys.copy()].last_attend = count();
    ++out_.attends;
  }
  void merge(std::uint32_t) {}

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(out_.attends); }

  // What is read of a copy was also read of the copy it came from, if only to be sent.
  void mark_used(Place at, Region rows, std::uint64_t& moves) {
    while (!at.at_home()) {
      Survey::Use& use = out_.copies[at.copy()];
      const Place from = tape_.copies()[at.copy()].from;
      if (!use.any()) {
        use = {rows.first.value, rows.end()};
        ++moves;
        if (backward_ && !from.at_home()) lead_on(from.copy(), at.copy());
      } else if (use.first <= rows.first.value && rows.end() <= use.end) {
        return;
      } else {
        use = {std::min(use.first, rows.first.value), std::max(use.end, rows.end())};
      }
      at = from;
    }
  }

  void lead_on(std::uint32_t from, std::uint32_t to) {
    Survey::Path& path = out_.paths[from];
    if (path.onward != Survey::kNone && path.onward >= to) return;
    path.onward = to;
    path.attends_when_moved_on = out_.paths[to].attends_when_moved;
  }

  const Tape& tape_;
  const Plan& plan_;
  const bool backward_;
  Survey& out_;
};

}  // namespace

Survey survey(const Tape& tape, const Plan& plan, bool backward) {
  Survey out;
  SurveyPass pass(tape, plan, backward, out);
  tape.replay(pass);
  return out;
}

}  // namespace ringsched
