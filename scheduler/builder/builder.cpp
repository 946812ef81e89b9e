// The recorder: looks at each call of a schedule, and puts it on the tape.
#include "ringsched/scheduler/builder.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mistake.hpp"
#include "parts.hpp"
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

// The last lanes that a schedule made, where nothing moves on them.
void drop_last_lanes(Plan& plan) {
  std::size_t used = kBasicLanes.size();
  if (plan.lanes.size() > used)
    for (const Task& task : plan.tasks) used = std::max(used, std::size_t(task.lane) + 1);
  plan.lanes.resize(used);
}

}  // namespace

Queries Queries::part(std::uint32_t i) const { return chunk_of(*this, i); }
Keys Keys::part(std::uint32_t i) const { return chunk_of(*this, i); }

struct PlanBuilder::Recording {
  Recording(const Problem& problem, Layout layout, std::uint64_t most)
      : parts(problem, std::move(layout)), tape(problem.workers), most_tasks(most) {}

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
  std::uint64_t moves = 0;
};

PlanBuilder::PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks)
    : recording_(std::make_shared<Recording>(problem, std::move(layout), most_tasks)) {
  for (std::uint32_t w = 0; w < problem.workers; ++w) workers_.push_back({w});
}
PlanBuilder::PlanBuilder(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
PlanBuilder::~PlanBuilder() = default;
PlanBuilder::PlanBuilder(PlanBuilder&&) noexcept = default;

PlanBuilder PlanBuilder::view(std::span<const Keys> keys) const {
  PlanBuilder out(recording_);
  for (Keys k : keys) {
    const WorkerId there = k.worker;
    if (!there.valid()) mistake_at(step_, "worker {} of a view has no keys", out.keys_.size());
    k.owner = k.worker = WorkerId{static_cast<std::uint32_t>(out.keys_.size())};
    out.workers_.push_back(true_number(there));
    out.keys_.push_back(k);
  }
  if (keys.empty()) mistake_at(step_, "a view has no workers");
  std::vector<WorkerId> sorted = out.workers_;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    mistake_at(step_, "two workers of a view are both worker {}", twice->value);
  out.first_ = out.step_ = step_;
  return out;
}

Problem PlanBuilder::problem() const {
  Problem p = recording_->parts.plan.problem;
  p.workers = static_cast<std::uint32_t>(workers_.size());
  return p;
}

Lane PlanBuilder::lane(std::string_view name) {
  std::vector<std::string>& lanes = recording_->parts.plan.lanes;
  auto at = std::find(lanes.begin(), lanes.end(), name);
  if (at == lanes.end()) {
    at = lanes.insert(at, std::string(name));
    if (const std::string why = refusal_of_lanes(lanes); !why.empty()) mistake_at(step_, "{}", why);
  }
  return static_cast<Lane>(at - lanes.begin());
}

Queries PlanBuilder::queries(WorkerId w) const {
  Queries q;
  recording_->set_share(q, true_number(w));
  q.owner = q.worker = w;
  q.brought_by = recording_->tape.queries_of(true_number(w));
  return q;
}

Keys PlanBuilder::keys(WorkerId w) const {
  Keys k;
  recording_->set_share(k, true_number(w));
  k.brought_by = recording_->tape.keys_of(true_number(w));
  return keys_.empty() ? k : keys_[w.value];
}

void PlanBuilder::no_such_worker(WorkerId w) const {
  mistake_at(step_, "there is no worker {}; {} workers 0 to {}", w.value,
             keys_.empty() ? "the plan has" : "this view has", workers_.size() - 1);
}

bool PlanBuilder::sees(const Queries& q, const Keys& k) const {
  return recording_->tile(q, k).form != TileForm::Empty;
}

void PlanBuilder::step(Step s) {
  step_ = first_ + s;
  recording_->tape.say(Call::What::Begin, step_);
}

template <class T>
T PlanBuilder::moved(const T& from, WorkerId to, const Timing& timing) {
  constexpr bool keys = std::is_same_v<T, Keys>;
  T out = from;
  if (!from.valid() || from.worker == to) return out;
  Recording& r = *recording_;
  const std::uint16_t owner = r.tape[from.brought_by].owner;
  const WorkerId target = true_number(to);
  out.worker = to;
  out.since = timing.needed ? first_ + *timing.needed : step_;
  if (out.since < step_)
    mistake_at(step_, "the {} of worker {} are to be on worker {} in step {}, which is over",
               keys ? "keys" : "queries", owner, target.value, out.since);
  if (out.since < from.since)
    mistake_at(step_,
               "the {} of worker {} are to be on worker {} in step {}, but are on worker {} in "
               "step {} only",
               keys ? "keys" : "queries", owner, target.value, out.since,
               true_number(from.worker).value, from.since);
  const auto lane = static_cast<std::size_t>(timing.lane);
  if (lane >= r.parts.plan.lanes.size() ||
      (lane < kBasicLanes.size() && timing.lane != Lane::Fetch))
    mistake_at(step_,
               "queries and keys cannot move on lane {}; use fetch, or a lane that the schedule "
               "made with lane(name)",
               lane < kBasicLanes.size() ? std::string(kBasicLanes[lane]) : std::to_string(lane));
  // The mask may leave most of them out, but to know that takes memory for all.
  if (++r.moves > r.most_tasks / 2)
    fail("this schedule needs more than {} moves; use fewer workers", r.most_tasks / 2);
  Call& c = r.tape.say(Call::What::Move, out.since);
  c.of_keys = keys;
  c.lane = timing.lane;
  c.owner = owner;
  c.worker = static_cast<std::uint16_t>(target.value);
  c.from = from.brought_by;
  out.brought_by = r.tape.last();
  return out;
}

Queries PlanBuilder::move(const Queries& from, WorkerId to, Timing timing) {
  return moved(from, to, timing);
}

Keys PlanBuilder::move(const Keys& from, WorkerId to, Timing timing) {
  return moved(from, to, timing);
}

Partial PlanBuilder::attend(const Queries& q, const Keys& k) {
  if (!q.valid() || !k.valid()) return {};
  Recording& r = *recording_;
  const WorkerId worker = true_number(q.worker);
  const std::uint16_t owner = r.tape[q.brought_by].owner;
  if (q.worker != k.worker)
    mistake_at(step_,
               "attend needs both operands on one worker, but the queries of worker {} are on "
               "worker {} and the keys of worker {} on worker {}; move one of them first",
               owner, worker.value, r.tape[k.brought_by].owner, true_number(k.worker).value);
  if (std::max(q.since, k.since) > step_)
    mistake_at(step_, "worker {} attends what a move brings for step {}", worker.value,
               std::max(q.since, k.since));
  const Tile tile = r.tile(q, k);
  if (tile.form == TileForm::Empty) return {};
  Call& c = r.tape.say(Call::What::Attend, step_);
  c.owner = owner;
  c.worker = static_cast<std::uint16_t>(worker.value);
  c.from = q.brought_by;
  c.keys = k.brought_by;
  c.rows = r.view_id(q);
  c.key_rows = r.view_id(k);
  c.work = r.parts.work(tile);
  return {q.owner, q.worker, r.tape.last(), step_};
}

Partial PlanBuilder::move(const Partial& p, WorkerId to) {
  if (!p.valid() || p.worker == to) return p;
  use(p);
  Tape& tape = recording_->tape;
  Call& c = tape.say(Call::What::MoveResult, step_);
  c.owner = tape[p.made_by].owner;
  c.worker = static_cast<std::uint16_t>(true_number(to).value);
  c.from = p.made_by;
  c.rows = tape[p.made_by].rows;
  return {p.owner, to, tape.last(), step_};
}

void PlanBuilder::merge(const Partial& p) {
  if (!p.valid()) return;
  if (p.worker != p.owner)
    mistake_at(step_,
               "merge needs the partial on the owner of its queries, worker {}, but it is on "
               "worker {}; move it first",
               true_number(p.owner).value, true_number(p.worker).value);
  use(p);
  Tape& tape = recording_->tape;
  Call& made = tape[p.made_by];
  if (made.what == Call::What::Attend && p.made_by == tape.last() && p.since == step_)
    made.merged = true;
  else
    tape.say(Call::What::Merge, step_).from = p.made_by;
}

// What is in a partial must not count twice.
void PlanBuilder::use(const Partial& p) {
  Call& made = recording_->tape[p.made_by];
  if (made.used)
    mistake_at(step_,
               "a partial of the queries of worker {} is used again: it was merged, or moved from "
               "worker {}, before",
               true_number(p.owner).value, true_number(p.worker).value);
  if (p.since > step_)
    mistake_at(step_, "a partial of the queries of worker {} is used, which is made in step {}",
               true_number(p.owner).value, p.since);
  made.used = true;
}

Plan PlanBuilder::finish(std::string_view schedule) && {
  Recording& r = *recording_;
  r.tape.put_in_order();
  Plan& plan = r.parts.plan;
  write_tasks(r.parts, r.tape, r.most_tasks);
  drop_last_lanes(plan);
  plan.schedule = schedule;
  return std::move(plan);
}

}  // namespace ringsched
