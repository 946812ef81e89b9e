#include "ringsched/scheduler/builder.hpp"

#include <algorithm>
#include <utility>

#include "mistake.hpp"

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

}  // namespace

Queries Queries::part(std::uint32_t i) const { return chunk_of(*this, i); }
Keys Keys::part(std::uint32_t i) const { return chunk_of(*this, i); }

PlanBuilder::PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks)
    : most_tasks_(most_tasks) {
  plan_.problem = problem;
  plan_.layout = std::move(layout);
  const std::uint32_t workers = problem.workers;
  single_.resize(plan_.layout.chunks.size());
  share_from_.resize(plan_.layout.chunks.size());
  for (std::uint32_t w = 0; w < workers; ++w) {
    const Region share = plan_.layout.share(WorkerId{w});
    (share.count == 1 ? single_ : share_from_)[share.first.value] = add_region(share);
  }
  for (std::uint32_t c = 0; c < single_.size(); ++c)
    if (!single_[c].valid()) single_[c] = add_region({{c}, 1});

  std::vector<TensorKind> kinds = {TensorKind::Query, TensorKind::KeyValue};
  if (problem.pass != Pass::Forward) kinds.push_back(TensorKind::OutputGradient);
  if (problem.pass == Pass::Backward) kinds.push_back(TensorKind::Partial);
  for (TensorKind kind : kinds)
    for (std::uint32_t w = 0; w < workers; ++w)
      plan_.initial.push_back({kind, WorkerId{w}, RegionId{w}});
}

Queries PlanBuilder::queries(WorkerId w) const {
  Queries q;
  q.owner = q.worker = w;
  q.view = plan_.layout.share(w);
  q.view_id = {w.value};
  q.tensor = {w.value};
  if (mode_ == Mode::Backward) q.gradient = prepared_[w.value];
  return q;
}

Keys PlanBuilder::keys(WorkerId w) const {
  Keys k;
  k.owner = k.worker = w;
  k.view = plan_.layout.share(w);
  k.view_id = {w.value};
  k.tensor = {plan_.problem.workers + w.value};
  return k;
}

Tile PlanBuilder::tile(const Operand& queries, const Operand& keys) const {
  return plan_.problem.mask.tile(token_sets_[view_id(queries).value],
                                 token_sets_[view_id(keys).value]);
}

bool PlanBuilder::sees(const Queries& q, const Keys& k) const {
  return tile(q, k).form != TileForm::Empty;
}

void PlanBuilder::begin(Mode mode) {
  mode_ = mode;
  next_copy_ = 0;
  next_attend_ = 0;
  next_tile_ = 0;
  if (mode == Mode::Survey) {
    copies_.clear();
    tiles_.clear();
    paths_.clear();
    return;
  }
  const std::uint32_t workers = plan_.problem.workers;
  const bool forward = mode == Mode::Forward;
  const std::uint64_t moves = surveyed_query_moves_ * (forward ? 1 : 2) +
                              surveyed_key_moves_ * (forward ? 1 : 3) + surveyed_returns_;
  const std::uint64_t tasks = surveyed_attends_ * (forward ? 2 : 3) + 2 * moves + 3 * workers;
  if (plan_.tasks.size() + tasks > most_tasks_)
    fail("this plan needs more than {} tasks; use fewer workers", most_tasks_);
  plan_.tasks.reserve(plan_.tasks.size() + tasks);

  first_step_ = plan_.tasks.empty() ? 0 : last_step_ + 1;
  step_ = first_step_;
  result_.assign(workers, {});
  posted_.assign(std::size_t{workers} * kLanes, 0);
  if (!forward) {
    home_key_gradient_.assign(workers, {});
    copy_key_gradient_.assign(copies_.size(), {});
    prepare_gradients();
  }
}

void PlanBuilder::step(Step s) {
  if (mode_ == Mode::Survey) {
    step_ = s;
    return;
  }
  add_arrived_gradients();
  step_ = first_step_ + s;
  send_gradients_home();
}

void PlanBuilder::end() {
  if (mode_ == Mode::Survey) return;
  add_arrived_gradients();
  if (!finished_keys_.empty()) {
    ++step_;
    send_gradients_home();
    add_arrived_gradients();
  }
  // A schedule may count steps beyond its last task.
  if (plan_.tasks.empty() || plan_.tasks.back().step < first_step_) {
    step_ = first_step_;
  } else {
    step_ = plan_.tasks.back().step;
  }
  if (mode_ == Mode::Forward) {
    write_outputs(TensorKind::Partial, result_);
    final_result_ = result_;
  } else {
    write_outputs(TensorKind::QueryGradient, result_);
    write_outputs(TensorKind::KeyValueGradient, home_key_gradient_);
  }
  last_step_ = step_;
}

Plan PlanBuilder::finish(std::string_view schedule) && {
  plan_.schedule = schedule;
  return std::move(plan_);
}

// Makes `moved` a copy on worker `to`. Says what to send, if anything of it will be read.
std::optional<RegionId> PlanBuilder::start_move(const Operand& from, Operand& moved, WorkerId to) {
  moved.worker = to;
  moved.copy = next_copy_++;
  if (mode_ == Mode::Survey) {
    survey_move(from);
    return {};
  }
  const Copy& use = copies_[moved.copy];
  if (!use.used()) return {};
  return region_id({{use.first}, use.end - use.first});
}

Queries PlanBuilder::move(const Queries& from, WorkerId to) {
  if (!from.valid() || from.worker == to) return from;
  Queries moved = from;
  if (const auto region = start_move(from, moved, to)) {
    moved.tensor = transfer(from.tensor, TensorKind::Query, *region, from.worker, to, Lane::Fetch);
    if (mode_ == Mode::Backward)
      moved.gradient = transfer(from.gradient, TensorKind::PreparedGradient, *region, from.worker,
                                to, Lane::Fetch);
  }
  return moved;
}

Keys PlanBuilder::move(const Keys& from, WorkerId to) {
  if (!from.valid() || from.worker == to) return from;
  Keys moved = from;
  if (const auto region = start_move(from, moved, to)) {
    moved.tensor =
        transfer(from.tensor, TensorKind::KeyValue, *region, from.worker, to, Lane::Fetch);
    if (mode_ == Mode::Backward) hand_on_gradient(from, moved);
  }
  return moved;
}

Partial PlanBuilder::move(const Partial& from, WorkerId to) {
  if (!from.valid() || from.worker == to) return from;
  Partial moved = from;
  moved.worker = to;
  if (mode_ == Mode::Survey) {
    ++surveyed_returns_;
    return moved;
  }
  const TensorKind kind = mode_ == Mode::Forward ? TensorKind::Partial : TensorKind::QueryGradient;
  moved.tensor = transfer(from.tensor, kind, from.region, from.worker, to, Lane::Return);
  return moved;
}

Partial PlanBuilder::attend(const Queries& q, const Keys& k) {
  if (!q.valid() || !k.valid()) return {};
  if (q.worker != k.worker)
    mistake_at(step_ - first_step_,
               "attend needs both operands on one worker, but the queries of worker {} are on "
               "worker {} and the keys of worker {} on worker {}; move one of them first",
               q.owner.value, q.worker.value, k.owner.value, k.worker.value);
  if (mode_ == Mode::Survey) return survey_attend(q, k);
  const WorkId work = tiles_[next_tile_++];
  if (!work.valid()) return {};
  Partial partial{q.owner, q.worker, view_id(q), {}};

  const bool forward = mode_ == Mode::Forward;
  Task& task = add(forward ? TaskKind::Attend : TaskKind::AttendBackward,
                   forward ? TensorKind::Partial : TensorKind::QueryGradient, q.worker,
                   partial.region, work);
  task.keys = view_id(k);
  partial.tensor = last_output();
  if (forward) {
    task.inputs = {q.tensor, k.tensor, {}};
  } else {
    task.inputs = {q.tensor, q.gradient, k.tensor};
    add_key_gradient(k, last_output(1), task.keys);
  }
  ++next_attend_;
  return partial;
}

void PlanBuilder::merge(const Partial& p) {
  if (!p.valid() || mode_ == Mode::Survey) return;
  if (p.worker != p.owner)
    mistake_at(step_ - first_step_,
               "merge needs the partial on the owner of its queries, worker {}, but it is on "
               "worker {}; move it first",
               p.owner.value, p.worker.value);
  const bool forward = mode_ == Mode::Forward;
  accumulate(forward ? TaskKind::Merge : TaskKind::Reduce,
             forward ? TensorKind::Partial : TensorKind::QueryGradient, p.worker,
             result_[p.owner.value], p.tensor, p.region);
}

WorkId PlanBuilder::work_of_rows(TensorKind kind, RegionId region) {
  std::vector<WorkId>& known = row_works_[static_cast<std::size_t>(kind)];
  if (known.size() <= region.value) known.resize(plan_.regions.size());
  WorkId& work = known[region.value];
  if (!work.valid()) {
    const Tokens rows = plan_.layout.rows(plan_.regions[region.value]);
    work = works_.find_or_add(plan_.works, work_of(plan_.problem, kind, rows));
  }
  return work;
}

// The task is filled where it stands: building it elsewhere and copying it costs a third of all the
// time there is.
Task& PlanBuilder::add(TaskKind kind, TensorKind makes, WorkerId worker, RegionId region,
                       WorkId work, Lane lane) {
  Step* const posted = &posted_[std::size_t{worker.value} * kLanes];
  bool with_previous = false;
  if (lane == Lane::Compute) {
    posted[1] = posted[2] = 0;
  } else {
    Step& open = posted[static_cast<std::size_t>(lane)];
    with_previous = open == step_ + 1;
    open = step_ + 1;
  }
  Task& task = plan_.tasks.emplace_back();
  task.kind = kind;
  task.makes = makes;
  task.lane = lane;
  task.with_previous = with_previous;
  task.worker_index = static_cast<std::uint16_t>(worker.value);
  task.step = step_;
  task.work = work;
  task.region = region;
  return task;
}

TensorId PlanBuilder::transfer(TensorId tensor, TensorKind kind, RegionId region, WorkerId from,
                               WorkerId to, Lane lane) {
  const WorkId work = work_of_rows(kind, region);
  const TaskId send{static_cast<std::uint32_t>(plan_.tasks.size())}, receive{send.value + 1};
  Task& sending = add(TaskKind::Send, kind, from, region, work, lane);
  sending.inputs[0] = tensor;
  sending.peer = receive;
  add(TaskKind::Receive, kind, to, region, work, lane).peer = send;
  return plan_.output(receive);
}

void PlanBuilder::accumulate(TaskKind kind, TensorKind makes, WorkerId worker, Accumulator& sum,
                             TensorId tensor, RegionId region) {
  if (!sum.tensor.valid()) {
    sum = {tensor, region};
    return;
  }
  Accumulator added{tensor, region};
  RegionId into = sum.region;
  if (sum.region != region) {
    const Region a = plan_.regions[sum.region.value], b = plan_.regions[region.value];
    if (!a.contains(b)) {
      if (b.contains(a)) {  // add the smaller to the larger, which can then be done in place
        std::swap(sum, added);
        into = region;
      } else {
        const std::uint32_t first = std::min(a.first.value, b.first.value);
        into = region_id({{first}, std::max(a.end(), b.end()) - first});
      }
    }
  }
  Task& task = add(kind, makes, worker, into, work_of_rows(makes, added.region));
  task.inputs[0] = sum.tensor;
  task.inputs[1] = added.tensor;
  sum = {last_output(), into};
}

void PlanBuilder::write_outputs(TensorKind kind, const std::vector<Accumulator>& results) {
  for (std::uint32_t w = 0; w < results.size(); ++w) {
    if (!results[w].tensor.valid()) continue;
    const RegionId region = results[w].region;
    add(TaskKind::Output, kind, WorkerId{w}, region, work_of_rows(kind, region)).inputs[0] =
        results[w].tensor;
  }
}

RegionId PlanBuilder::region_id(Region r) {
  const RegionId likely = (r.count == 1 ? single_ : share_from_)[r.first.value];
  if (likely.valid() && plan_.regions[likely.value] == r) return likely;
  const std::uint64_t key = (std::uint64_t{r.first.value} << 32) | r.count;
  const auto [at, is_new] = other_regions_.try_emplace(key);
  if (is_new) at->second = add_region(r);
  return at->second;
}

RegionId PlanBuilder::add_region(Region r) {
  plan_.regions.push_back(r);
  token_sets_.emplace_back(plan_.layout.ranges(r));
  return {static_cast<std::uint32_t>(plan_.regions.size()) - 1};
}

}  // namespace ringsched
