// The recorder: checks each call of a schedule, and puts it on the tape.
#include "ringsched/scheduler/builder.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mistake.hpp"
#include "parts.hpp"
#include "ringsched/scheduler/stop.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "tape.hpp"
#include "writer.hpp"

namespace ringsched {

namespace {

template <class T>
T part_of(const T& whole, std::uint32_t i, std::uint32_t parts) {
  if (i >= parts || whole.parts % parts != 0)
    throw ScheduleMistake(fmt::format(
        "part({}) of the share of worker {}: it has {} chunk{}, counted from 0; the layout in "
        "the registry decides how many",
        i, whole.owner.value, whole.parts, whole.parts == 1 ? "" : "s"));
  T part = whole;
  const std::uint32_t chunks = whole.view.count / parts;
  part.view = {{whole.view.first.value + i * chunks}, chunks};
  part.view_id = {};
  part.parts = 1;
  return part;
}

// Does each member get exactly what it gives?
template <class T>
bool nothing_moves(std::span<const T> given, std::span<const Wanted> wanted) {
  return std::ranges::equal(given, wanted, [](const T& g, const Wanted& w) {
    return g.valid() && g.view == w.rows && g.heads == w.heads;
  });
}

// The last lanes that a schedule made, if nothing moves on them.
void drop_last_lanes(Plan& plan) {
  std::size_t used = kBasicLanes.size();
  if (plan.lanes.size() > used)
    for (const Task& task : plan.tasks) used = std::max(used, std::size_t(task.lane) + 1);
  plan.lanes.resize(used);
}

}  // namespace

Queries Queries::part(std::uint32_t i) const { return part_of(*this, i, parts); }
Queries Queries::half(std::uint32_t i) const { return part_of(*this, i, 2); }
Keys Keys::half(std::uint32_t i) const { return part_of(*this, i, 2); }
Keys Keys::part(std::uint32_t i) const { return part_of(*this, i, parts); }

struct PlanBuilder::Recording {
  Recording(const Problem& problem, Layout layout, std::uint64_t most)
      : parts(problem, std::move(layout)), tape(problem.workers), most_tasks(most) {
    for (const bool of_keys : {false, true})
      for (std::uint32_t w = 0; w < problem.workers; ++w) {
        Call& c = tape.say(Call::What::Given, 0);
        c.of_keys = of_keys;
        c.worker = static_cast<std::uint16_t>(w);
        tape.add_origin(of_keys ? parts.share({w}) : parts.query_rows({w}), all_columns(of_keys));
      }
  }

  ColumnRange all_columns(bool of_keys) const {
    return parts.plan.program[of_keys ? attention::kKeyValue : attention::kQuery].all_columns();
  }
  // A view is all rows of an origin, or a part of them.
  RegionId view_id(const Operand& x) {
    if (x.view_id.valid()) return x.view_id;
    return x.view.count == 1 ? parts.chunk(x.view.first.value) : parts.region(x.view);
  }
  const Tile& tile(const Operand& queries, const Operand& keys) {
    return parts.tile(view_id(queries), view_id(keys));
  }
  // The result of the last call, or of that one, at worker `w`, in the numbers of a view.
  void set_origin(Operand& x, OriginId id, WorkerId w) const {
    const Origin& origin = tape.origin(id);
    x.owner = x.worker = w;
    x.view = parts.plan.regions[origin.rows.value];
    x.view_id = origin.rows;
    x.heads = origin.columns;
    x.brought_by = origin.call;
    x.parts = x.view.count;
  }
  WorkerId owner(CallId operand) const { return tape.worker(tape[operand].origin); }

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

PlanBuilder PlanBuilder::view(std::span<const Queries> queries, std::span<const Keys> keys) const {
  PlanBuilder out = view(keys);
  if (queries.size() != keys.size())
    mistake_at(step_, "a view has queries of {} workers, but keys of {}", queries.size(),
               keys.size());
  for (Queries q : queries) {
    const auto number = static_cast<std::uint32_t>(out.queries_.size());
    if (!q.valid() || true_number(q.worker) != out.workers_[number])
      mistake_at(step_, "worker {} of a view has no queries where it has its keys", number);
    if (recording_->tape.origin(recording_->tape[q.brought_by]).call != q.brought_by)
      mistake_at(step_, "worker {} of a view has queries that have moved there", number);
    q.owner = q.worker = WorkerId{number};
    out.queries_.push_back(q);
  }
  return out;
}

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
  const WorkerId there = true_number(w);
  if (!queries_.empty()) return queries_[w.value];
  Queries q;
  recording_->set_origin(q, recording_->tape.queries_of(there), w);
  return q;
}

Keys PlanBuilder::keys(WorkerId w) const {
  const WorkerId there = true_number(w);
  if (!keys_.empty()) return keys_[w.value];
  Keys k;
  recording_->set_origin(k, recording_->tape.keys_of(there), w);
  return k;
}

Queries PlanBuilder::only(const Queries& q, ColumnRange heads) {
  Recording& r = *recording_;
  if (!q.valid() || heads == q.heads) return q;
  const Origin from = r.tape.origin(r.tape[q.brought_by]);
  if (from.call != q.brought_by)
    mistake_at(step_, "only() needs queries at home, but those of worker {} have moved",
               r.owner(q.brought_by).value);
  if (heads.count == 0 || !q.heads.contains(heads))
    mistake_at(step_, "only() takes {} of the queries of worker {}, which have {}",
               heads_text(heads, false), r.owner(q.brought_by).value, heads_text(q.heads, false));
  Call& c = r.tape.say(Call::What::Narrow, step_);
  c.worker = r.tape[q.brought_by].worker;
  c.from = q.brought_by;
  r.tape.add_origin(from.rows, heads);
  Queries out = q;
  out.heads = heads;
  out.brought_by = r.tape.last();
  return out;
}

std::string PlanBuilder::heads_text(ColumnRange heads, bool keys) const {
  if (heads.count == 0) return "no heads";
  const Program& program = recording_->parts.plan.program;
  return name_of(program[keys ? attention::kKeyValue : attention::kQuery].columns, heads);
}

void PlanBuilder::check_lane(Lane lane) const {
  const auto number = static_cast<std::size_t>(lane);
  if (number < recording_->parts.plan.lanes.size() &&
      (number >= kBasicLanes.size() || lane == Lane::Fetch))
    return;
  mistake_at(
      step_,
      "queries and keys cannot move on lane {}; use fetch, or a lane that the schedule "
      "made with lane(name)",
      number < kBasicLanes.size() ? std::string(kBasicLanes[number]) : std::to_string(number));
}

void PlanBuilder::check_wanted(std::span<const Wanted> wanted, std::size_t given, bool keys) const {
  const Recording& r = *recording_;
  if (wanted.empty() || wanted.size() != given)
    mistake_at(step_, "an exchange has {} given and {} wanted; use one of each per member", given,
               wanted.size());
  std::vector<WorkerId> workers;
  const std::uint32_t chunks = static_cast<std::uint32_t>(r.parts.plan.layout.chunks.size());
  const std::uint32_t heads = r.all_columns(keys).count;
  for (const Wanted& w : wanted) {
    workers.push_back(true_number(w.worker));
    if (w.rows.count > chunks || w.rows.first.value > chunks - w.rows.count)
      mistake_at(step_, "worker {} wants {} of an exchange; there are {}", workers.back().value,
                 name_of(w.rows), chunks);
    if (w.heads.count > heads || w.heads.first > heads - w.heads.count)
      mistake_at(step_, "worker {} wants {} of an exchange; there are {}", workers.back().value,
                 heads_text(w.heads, keys), heads);
  }
  std::ranges::sort(workers);
  if (const auto twice = std::ranges::adjacent_find(workers); twice != workers.end())
    mistake_at(step_, "worker {} takes part in an exchange twice", twice->value);
}

CallId PlanBuilder::say_member(std::uint32_t number, const Wanted& wanted, CallId given,
                               CallId first, const Exchanging& how, Gives gives) {
  Recording& r = *recording_;
  using enum Call::What;
  Call& c = r.tape.say(gives == Gives::Results    ? ResultMember
                       : gives == Gives::Partials ? PartialMember
                                                  : Member,
                       step_);
  c.worker = static_cast<std::uint16_t>(true_number(wanted.worker).value);
  c.from = given;
  c.keys = number == 0 ? r.tape.last() : first;
  c.lane = Tape::gives_results(c) ? Lane::Return : how.lane;
  c.again = how.again;
  c.of_keys = gives == Gives::Keys;
  if (wanted.rows.count > 0 && wanted.heads.count > 0)
    r.tape.add_origin(r.parts.region(wanted.rows), wanted.heads);
  return r.tape.last();
}

template <class T>
std::vector<T> PlanBuilder::exchanged(std::span<const T> given, std::span<const Wanted> wanted,
                                      const Exchanging& how) {
  constexpr bool keys = std::is_same_v<T, Keys>;
  Recording& r = *recording_;
  check_lane(how.lane);
  check_wanted(wanted, given.size(), keys);
  std::uint32_t parts = 0;
  std::vector<CallId> from(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid()) continue;
    const Origin& origin = r.tape.origin(r.tape[given[i].brought_by]);
    const std::uint32_t owner = r.owner(given[i].brought_by).value;
    if (given[i].worker != wanted[i].worker)
      mistake_at(step_, "worker {} cannot give an exchange what worker {} has",
                 true_number(wanted[i].worker).value, true_number(given[i].worker).value);
    if (origin.call != given[i].brought_by || origin.rows != r.view_id(given[i]))
      mistake_at(step_, "an exchange takes the {} of worker {} only whole and at home",
                 keys ? "keys" : "queries", owner);
    if (given[i].since > step_)
      mistake_at(step_, "worker {} gives an exchange what arrives only in step {}", owner,
                 given[i].since);
    from[i] = given[i].brought_by;
    parts = std::max(parts, given[i].parts);
  }
  if (nothing_moves(given, wanted)) return {given.begin(), given.end()};
  if (parts == 0) mistake_at(step_, "no member of an exchange gives {}", keys ? "keys" : "queries");
  const CallId first{r.tape.size()};
  std::vector<T> out(given.size());
  for (std::uint32_t i = 0; i < given.size(); ++i) {
    const CallId member =
        say_member(i, wanted[i], from[i], first, how, keys ? Gives::Keys : Gives::Queries);
    if (!r.tape[member].origin.valid()) continue;
    r.set_origin(out[i], r.tape[member].origin, wanted[i].worker);
    out[i].parts = out[i].view.count % parts == 0 ? parts : 1;
    out[i].since = step_;
  }
  return out;
}

std::vector<Queries> PlanBuilder::exchange(std::span<const Queries> given,
                                           std::span<const Wanted> wanted, Exchanging how) {
  return exchanged(given, wanted, how);
}

std::vector<Keys> PlanBuilder::exchange(std::span<const Keys> given, std::span<const Wanted> wanted,
                                        Exchanging how) {
  return exchanged(given, wanted, how);
}

std::vector<Merged> PlanBuilder::merged() const {
  std::vector<Merged> out;
  for (std::uint32_t w = 0; w < workers_.size(); ++w) {
    const Queries q = queries(WorkerId{w});
    out.push_back({workers_[w], q.view, q.heads, q.brought_by});
  }
  return out;
}

std::vector<Merged> PlanBuilder::exchange(std::span<const Merged> given,
                                          std::span<const Wanted> wanted) {
  Recording& r = *recording_;
  check_wanted(wanted, given.size(), false);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].valid() && given[i].worker != true_number(wanted[i].worker))
      mistake_at(step_, "worker {} cannot give an exchange a result of worker {}",
                 true_number(wanted[i].worker).value, given[i].worker.value);
  if (nothing_moves(given, wanted)) return {given.begin(), given.end()};
  const CallId first{r.tape.size()};
  std::vector<Merged> out(given.size());
  for (std::uint32_t i = 0; i < given.size(); ++i) {
    const WorkerId worker = true_number(wanted[i].worker);
    const CallId member = say_member(i, wanted[i], given[i].of, first, {}, Gives::Results);
    if (r.tape[member].origin.valid()) out[i] = {worker, wanted[i].rows, wanted[i].heads, member};
  }
  return out;
}

std::vector<Merged> PlanBuilder::exchange(std::span<const Partial> given,
                                          std::span<const Wanted> wanted) {
  Recording& r = *recording_;
  if (r.parts.plan.problem.pass != Pass::Forward)
    mistake_at(step_, "an exchange of partials works with --pass forward only");
  check_wanted(wanted, given.size(), false);
  std::vector<CallId> from(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid()) continue;
    if (given[i].worker != wanted[i].worker)
      mistake_at(step_, "worker {} cannot give an exchange a partial of worker {}",
                 true_number(wanted[i].worker).value, true_number(given[i].worker).value);
    use(given[i]);
    from[i] = given[i].made_by;
  }
  const CallId first{r.tape.size()};
  std::vector<Merged> out(given.size());
  for (std::uint32_t i = 0; i < given.size(); ++i) {
    const CallId member = say_member(i, wanted[i], from[i], first, {}, Gives::Partials);
    if (r.tape[member].origin.valid())
      out[i] = {true_number(wanted[i].worker), wanted[i].rows, wanted[i].heads, member};
  }
  return out;
}

void PlanBuilder::no_such_worker(WorkerId w) const {
  mistake_at(step_, "there is no worker {}; {} workers 0 to {}", w.value,
             keys_.empty() ? "the plan has" : "this view has", workers_.size() - 1);
}

bool PlanBuilder::sees(const Queries& q, const Keys& k) const {
  return recording_->tile(q, k).form != TileForm::Empty;
}

void PlanBuilder::step(Step s) {
  stop_here();
  step_ = first_ + s;
  recording_->tape.say(Call::What::Begin, step_);
}

Step PlanBuilder::steps() const { return recording_->tape.most_steps() - first_; }

template <class T>
T PlanBuilder::moved(const T& from, WorkerId to, const Timing& timing) {
  constexpr bool keys = std::is_same_v<T, Keys>;
  T out = from;
  if (!from.valid() || from.worker == to) return out;
  Recording& r = *recording_;
  const std::uint32_t owner = r.owner(from.brought_by).value;
  const WorkerId target = true_number(to);
  out.worker = to;
  out.since = timing.needed ? first_ + *timing.needed : step_;
  if (out.since < step_)
    mistake_at(step_, "the {} of worker {} must be on worker {} in step {}, which is over",
               keys ? "keys" : "queries", owner, target.value, out.since);
  if (out.since < from.since)
    mistake_at(step_,
               "the {} of worker {} must be on worker {} in step {}, but are on worker {} in "
               "step {} only",
               keys ? "keys" : "queries", owner, target.value, out.since,
               true_number(from.worker).value, from.since);
  check_lane(timing.lane);
  // The mask may leave most of them out, but finding that out takes memory for all.
  if (++r.moves > r.most_tasks / 2)
    fail("this schedule needs more than {} moves; use fewer workers", r.most_tasks / 2);
  Call& c = r.tape.say(Call::What::Move, out.since);
  c.of_keys = keys;
  c.always = timing.always;
  c.lane = timing.lane;
  c.origin = r.tape[from.brought_by].origin;
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
  if (q.worker != k.worker)
    mistake_at(step_,
               "attend needs both operands on one worker, but the queries of worker {} are on "
               "worker {} and the keys of worker {} on worker {}; move one of them first",
               r.owner(q.brought_by).value, worker.value, r.owner(k.brought_by).value,
               true_number(k.worker).value);
  if (std::max(q.since, k.since) > step_)
    mistake_at(step_, "worker {} attends what arrives only for step {}", worker.value,
               std::max(q.since, k.since));
  const Problem& p = r.parts.plan.problem;
  const bool all_heads = q.heads.count == p.heads && k.heads.count == p.kv_heads;  // usually
  if (!all_heads && q.heads.grouped(p.heads / p.kv_heads) != k.heads)
    mistake_at(step_,
               "worker {} attends {} of queries to {} of keys, but these queries read others",
               worker.value, heads_text(q.heads, false), heads_text(k.heads, true));
  const Tile& tile = r.tile(q, k);
  if (tile.form == TileForm::Empty) return {};
  Call& c = r.tape.say(Call::What::Attend, step_);
  c.origin = r.tape[q.brought_by].origin;
  c.worker = static_cast<std::uint16_t>(worker.value);
  c.from = q.brought_by;
  c.keys = k.brought_by;
  c.rows = r.view_id(q);
  c.key_rows = r.view_id(k);
  c.work = r.parts.work(tile, q.heads.count);
  return {q.owner, q.worker, r.tape.last(), step_};
}

Partial PlanBuilder::move(const Partial& p, WorkerId to) {
  if (!p.valid() || p.worker == to) return p;
  use(p);
  Tape& tape = recording_->tape;
  Call& c = tape.say(Call::What::MoveResult, step_);
  c.origin = tape[p.made_by].origin;
  // In decoding the queries are there too.
  const bool copied = recording_->parts.plan.problem.decodes() &&
                      tape[tape.origin(c).call].what == Call::What::Given;
  if (copied) c.origin = tape.queries_of(true_number(to));
  c.worker = static_cast<std::uint16_t>(true_number(to).value);
  c.from = p.made_by;
  c.rows = tape[p.made_by].rows;
  return {copied ? to : p.owner, to, tape.last(), step_};
}

Partial PlanBuilder::combine(const Partial& a, const Partial& b) {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  Tape& tape = recording_->tape;
  if (a.worker != b.worker)
    mistake_at(
        step_,
        "combine needs both partials on one worker, but they are on workers {} and {}; move one "
        "of them first",
        true_number(a.worker).value, true_number(b.worker).value);
  if (tape[a.made_by].origin != tape[b.made_by].origin ||
      tape[a.made_by].rows != tape[b.made_by].rows)
    mistake_at(step_,
               "combine needs partials of the same queries; those on worker {} have different ones",
               true_number(a.worker).value);
  use(a);
  use(b);
  const Call made = tape[a.made_by];
  Call& c = tape.say(Call::What::Combine, step_);
  c.origin = made.origin;
  c.worker = made.worker;
  c.rows = made.rows;
  c.from = a.made_by;
  c.keys = b.made_by;
  return {a.owner, a.worker, tape.last(), step_};
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
    mistake_at(step_, "a partial of the queries of worker {} is used before step {} makes it",
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
