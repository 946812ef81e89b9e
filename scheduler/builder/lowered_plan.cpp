#include "lowered_plan.hpp"

#include <algorithm>
#include <utility>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

LoweredPlan::LoweredPlan(const Plan& from)
    : from_(from),
      became_(from.initial.size() + 2 * from.tasks.size()),
      join_of_(became_.size(), ~0u),
      first_use_(became_.size(), kNever),
      tasks_of_(from.controls.empty() ? 0 : from.tasks.size()),
      posted_(lanes_.all, ~0u) {
  plan_.problem = from.problem;
  plan_.program = from.program;
  plan_.layout = from.layout;
  plan_.schedule = from.schedule;
  plan_.dummy_heads = from.dummy_heads;
  plan_.dummy_kv_heads = from.dummy_kv_heads;
  plan_.lanes = from.lanes;
  plan_.regions = from.regions;
  plan_.pieces = from.pieces;
  plan_.works = from.works;
  plan_.initial = from.initial;
  plan_.tasks.reserve(from.tasks.size());
  for (const TokenRange& chunk : from.layout.chunks)
    rows_before_.push_back(rows_before_.back() + chunk.count);
  for (std::uint32_t t = 0; t < from.initial.size(); ++t) became_[t] = {t};
  for (const Task& task : from.tasks)
    for (const TensorId input : task.inputs)
      if (input.valid()) first_use_[input.value] = std::min(first_use_[input.value], task.step);
}

void LoweredPlan::copy(TaskId id) {
  const Task& old = from_.tasks[id.value];
  begin_step(old.step);
  std::array<TensorId, 3> inputs{};
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = use(old.inputs[i]);
  const TaskId made{static_cast<std::uint32_t>(plan_.tasks.size())};
  Task& task = plan_.tasks.emplace_back(old);
  check_size();
  task.inputs = inputs;
  for (std::uint32_t i = 0; i < outputs_of(old.kind); ++i)
    became_[from_.output(id, i).value] = plan_.output(made, i);
  if (is_receive(old.kind)) {  // its send stands before it
    task.peer = plan_.producer(became_[from_.output(old.peer).value]);
    plan_.tasks[task.peer.value].peer = made;
  }
  if (is_send(old.kind)) became_[from_.output(id).value] = plan_.output(made);
  if (is_repack(old.kind)) {
    const Exchange& e = from_.exchange(old);
    if (e.first == id) plan_.repacks.push_back({made, e.members});
    task.exchange = {static_cast<std::uint32_t>(plan_.repacks.size()) - 1};
  }
  if (!tasks_of_.empty()) tasks_of_[id.value] = {made};
}

TensorId LoweredPlan::use(TensorId old) {
  if (!old.valid()) return {};
  if (const std::uint32_t join = join_of_[old.value]; join != ~0u) write(joins_[join]);
  return became_[old.value];
}

// What a step needs is joined before any of it moves, so that groups of messages stay whole.
void LoweredPlan::begin_step(Step step) {
  step_ = step;
  while (!due_.empty() && due_.begin()->first <= step) {
    const auto due = due_.extract(due_.begin());
    for (const std::uint32_t join : due.mapped()) write(joins_[join]);
  }
}

void LoweredPlan::begin_exchange(const Exchange& e) {
  const Task& first = from_.tasks[e.first.value];
  begin_step(first.step);
  exchange_ = &e;
  value_ = from_.value(first);
  lane_ = first.lane;
  for (std::uint32_t id = e.first.value; id < e.end(); ++id) use(from_.tasks[id].inputs[0]);
  begin_ = static_cast<std::uint32_t>(plan_.tasks.size());
  begin_group();
}

void LoweredPlan::end_exchange() {
  check_size();
  if (tasks_of_.empty()) return;
  std::map<std::uint32_t, std::uint32_t> member;  // by worker
  for (std::uint32_t id = exchange_->first.value; id < exchange_->end(); ++id)
    member[from_.tasks[id].worker_index] = id;
  for (std::uint32_t id = begin_; id < plan_.tasks.size(); ++id)
    tasks_of_[member.at(plan_.tasks[id].worker_index)].push_back({id});
}

TensorId LoweredPlan::transfer(TensorId tensor, const CellRange& cells, WorkerId to) {
  const Tensor held = plan_.tensor(tensor);
  const TaskId send{static_cast<std::uint32_t>(plan_.tasks.size())};
  Task& sending = add(TaskKind::Send, held.worker, lane_, cells);
  sending.inputs[0] = tensor;
  sending.peer = {send.value + 1};
  Task& receiving = add(TaskKind::Receive, to, lane_, cells);
  receiving.peer = send;
  receiving.completes = held.complete;
  return last();
}

std::vector<TensorId> LoweredPlan::cut(TensorId tensor, std::span<const CellRange> parts) {
  if (parts.size() == 1 && parts[0] == cells(tensor)) return {tensor};
  std::vector<TensorId> given(parts.size()), out;
  given[0] = tensor;
  const TensorId first = repack(worker(tensor), given, parts, false);
  for (std::uint32_t i = 0; i < parts.size(); ++i)
    out.push_back(plan_.output({plan_.producer(first).value + i}));
  return out;
}

TensorId LoweredPlan::add_up(TensorId into, TensorId more) {
  const bool softmax = plan_.program.type(value_).algebra == Algebra::Softmax;
  Task& task =
      add(softmax ? TaskKind::Merge : TaskKind::Reduce, worker(into), Lane::Compute, cells(into));
  task.inputs = {into, more, {}};
  return last();
}

void LoweredPlan::deliver(TaskId member, std::vector<TensorId> parts) {
  const TensorId old = from_.output(member);
  const Piece& piece = from_.piece(from_.tasks[member.value]);
  const CellRange wanted = {plan_.regions[piece.rows.value], piece.columns};
  const Tensor only = plan_.tensor(parts[0]);
  const bool made_here = only.producer.valid() && only.producer.value >= begin_;
  if (parts.size() == 1 && cells(parts[0]) == wanted && (only.complete || made_here)) {
    mark_complete(plan_, parts[0]);
    became_[old.value] = parts[0];
    return;
  }
  const bool adds = !only.complete;
  const auto number = static_cast<std::uint32_t>(joins_.size());
  joins_.push_back({old, std::move(parts)});
  join_of_[old.value] = number;
  const Step use = first_use_[old.value];
  if (use <= step_ || adds || lane_ == Lane::Compute)
    write(joins_[number]);
  else if (use != kNever)
    due_[use].push_back(number);
}

void LoweredPlan::write(Join& join) {
  if (std::exchange(join.written, true)) return;
  const Task& member = from_.tasks[from_.producer(join.makes).value];
  const Piece& piece = from_.piece(member);
  const ValueId value = std::exchange(value_, piece.value);
  std::vector<CellRange> got(join.parts.size());
  got[0] = {plan_.regions[piece.rows.value], piece.columns};
  became_[join.makes.value] = repack(member.worker(), join.parts, got, true);
  value_ = value;
}

TensorId LoweredPlan::repack(WorkerId worker, std::span<const TensorId> given,
                             std::span<const CellRange> got, bool complete) {
  const TaskId first{static_cast<std::uint32_t>(plan_.tasks.size())};
  plan_.repacks.push_back({first, static_cast<std::uint32_t>(given.size())});
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool gets = !got[i].empty();
    Task& task =
        add(TaskKind::Repack, worker, Lane::Compute, gets ? got[i] : CellRange{{{0}, 0}, {0, 1}});
    task.with_previous = i > 0;
    task.exchange = {static_cast<std::uint32_t>(plan_.repacks.size()) - 1};
    task.inputs[0] = given[i];
    task.completes = complete || !gets;
  }
  return plan_.output(first);
}

Task& LoweredPlan::add(TaskKind kind, WorkerId worker, Lane lane, const CellRange& cells) {
  const Tokens rows{rows_before_[cells.rows.end()] - rows_before_[cells.rows.first.value]};
  const RegionId region = tables_.id(cells.rows);
  const PieceId piece = tables_.id(Piece{value_, region, cells.columns});
  const WorkId work = tables_.id(work_of(plan_.program, value_, rows, cells.columns.count));
  Task& task = plan_.tasks.emplace_back();
  task.kind = kind;
  task.lane = lane;
  task.worker_index = static_cast<std::uint16_t>(worker.value);
  task.step = step_;
  task.piece = piece;
  task.work = work;
  if (is_transfer(kind))
    task.with_previous = std::exchange(posted_[lanes_.of(worker, lane)], group_) == group_;
  return task;
}

void LoweredPlan::check_size() const {
  if (plan_.tasks.size() > kMostTasks)
    fail("the plan needs more than {} tasks without its exchanges; use fewer workers", kMostTasks);
}

void LoweredPlan::copy_edges() {
  for (const ControlEdge& e : from_.controls)
    for (const TaskId before : tasks_of_[e.before.value])
      for (const TaskId after : tasks_of_[e.after.value]) plan_.controls.push_back({before, after});
  const auto order = [](const ControlEdge& e) { return std::pair(e.after, e.before); };
  std::ranges::sort(plan_.controls, {}, order);
  for (const BufferSlot& s : from_.slots)
    plan_.slots.push_back({plan_.producer(became_[from_.output(s.receive).value]), s.slot});
}

Plan LoweredPlan::finish() && {
  begin_step(kNever);
  copy_edges();
  return std::move(plan_);
}

}  // namespace ringsched
