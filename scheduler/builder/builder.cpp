// The recorder: looks at each call of a schedule, and puts it on the tape.
#include "ringsched/scheduler/builder.hpp"

#include <utility>
#include <vector>

#include "mistake.hpp"
#include "parts.hpp"
#include "survey.hpp"
#include "tape.hpp"
#include "writer.hpp"

namespace ringsched {

namespace {

template <class T>
T chunk_of(const T& whole, std::uint32_t i) {
  if (i >= whole.view.count)
    throw ScheduleMistake(fmt::format(
        "part({}) of the share of worker {}: it has {} chunk{}, counted from 0; the layout in "
        "the registry decides how many",
        i, whole.owner.value, whole.view.count, whole.view.count == 1 ? "" : "s"));
  T part = whole;
  part.view = {{whole.view.first.value + i}, 1};
  part.view_id = {};
  return part;
}

Place place_of(const Operand& x) {
  return x.at_home() ? Place::home(x.owner) : Place::copy(x.copy);
}

}  // namespace

Queries Queries::part(std::uint32_t i) const { return chunk_of(*this, i); }
Keys Keys::part(std::uint32_t i) const { return chunk_of(*this, i); }

struct PlanBuilder::Recording {
  Recording(const Problem& problem, Layout layout, std::uint64_t most)
      : parts(problem, std::move(layout)), most_tasks(most) {}

  // A view is a whole share or one chunk of it.
  RegionId view_id(const Operand& x) const {
    return x.view_id.valid() ? x.view_id : parts.chunk(x.view.first.value);
  }
  Tile tile(const Operand& queries, const Operand& keys) const {
    return parts.tile(view_id(queries), view_id(keys));
  }
  void set_share(Operand& x, WorkerId w) const {
    x.owner = x.worker = w;
    x.view = parts.plan.layout.share(w);
    x.view_id = parts.share(w);
  }

  PlanParts parts;
  Tape tape;
  const std::uint64_t most_tasks;
  Step step = 0;
  std::vector<bool> used;  // by number of partial: merged or moved on
};

PlanBuilder::PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks)
    : recording_(std::make_unique<Recording>(problem, std::move(layout), most_tasks)) {}
PlanBuilder::~PlanBuilder() = default;
PlanBuilder::PlanBuilder(PlanBuilder&&) noexcept = default;

Queries PlanBuilder::queries(WorkerId w) const {
  Queries q;
  recording_->set_share(q, w);
  return q;
}

Keys PlanBuilder::keys(WorkerId w) const {
  Keys k;
  recording_->set_share(k, w);
  return k;
}

bool PlanBuilder::sees(const Queries& q, const Keys& k) const {
  return recording_->tile(q, k).form != TileForm::Empty;
}

void PlanBuilder::step(Step s) {
  recording_->step = s;
  recording_->tape.step(s);
}

void PlanBuilder::record_move(const Operand& from, Operand& moved, WorkerId to, bool keys) {
  Recording& r = *recording_;
  // The mask may leave most of them out, but to know that takes memory for all.
  if (r.tape.copies().size() >= r.most_tasks / 2)
    fail("this schedule needs more than {} moves; use fewer workers", r.most_tasks / 2);
  moved.worker = to;
  moved.copy = static_cast<std::uint32_t>(r.tape.copies().size());
  r.tape.move(keys, {place_of(from), static_cast<std::uint16_t>(from.owner.value),
                     static_cast<std::uint16_t>(to.value)});
}

Queries PlanBuilder::move(const Queries& from, WorkerId to) {
  Queries moved = from;
  if (from.valid() && from.worker != to) record_move(from, moved, to, false);
  return moved;
}

Keys PlanBuilder::move(const Keys& from, WorkerId to) {
  Keys moved = from;
  if (from.valid() && from.worker != to) record_move(from, moved, to, true);
  return moved;
}

Partial PlanBuilder::move(const Partial& from, WorkerId to) {
  if (!from.valid() || from.worker == to) return from;
  use(from);
  recording_->used.push_back(false);
  return {from.owner, to, recording_->tape.move_result(from.number, to)};
}

Partial PlanBuilder::attend(const Queries& q, const Keys& k) {
  if (!q.valid() || !k.valid()) return {};
  Recording& r = *recording_;
  if (q.worker != k.worker)
    mistake_at(r.step,
               "attend needs both operands on one worker, but the queries of worker {} are on "
               "worker {} and the keys of worker {} on worker {}; move one of them first",
               q.owner.value, q.worker.value, k.owner.value, k.worker.value);
  const Tile tile = r.tile(q, k);
  if (tile.form == TileForm::Empty) return {};
  r.used.push_back(false);
  return {q.owner, q.worker,
          r.tape.attend(r.parts.work(tile), place_of(q), place_of(k), r.view_id(q), r.view_id(k))};
}

void PlanBuilder::merge(const Partial& p) {
  if (!p.valid()) return;
  if (p.worker != p.owner)
    mistake_at(recording_->step,
               "merge needs the partial on the owner of its queries, worker {}, but it is on "
               "worker {}; move it first",
               p.owner.value, p.worker.value);
  use(p);
  recording_->tape.merge(p.number);
}

// What is in a partial must not count twice.
void PlanBuilder::use(const Partial& p) {
  if (recording_->used[p.number])
    mistake_at(recording_->step,
               "a partial of the queries of worker {} is used again: it was merged, or moved from "
               "worker {}, before",
               p.owner.value, p.worker.value);
  recording_->used[p.number] = true;
}

Plan PlanBuilder::finish(std::string_view schedule) && {
  Recording& r = *recording_;
  Plan& plan = r.parts.plan;
  const Pass pass = plan.problem.pass;
  const Survey read = survey(r.tape, plan, pass != Pass::Forward);
  PlanWriter writer(r.parts, r.tape, read, r.most_tasks);
  if (pass != Pass::Backward) writer.write_forward();
  if (pass != Pass::Forward) writer.write_backward();
  plan.schedule = schedule;
  return std::move(plan);
}

}  // namespace ringsched
