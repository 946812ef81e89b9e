#include "writer.hpp"

#include <algorithm>
#include <utility>

#include "ringsched/scheduler/piece_table.hpp"

namespace ringsched {

PlanWriter::PlanWriter(PlanParts& parts, const Tape& tape, const Survey& survey,
                       std::uint64_t most_tasks)
    : parts_(parts),
      plan_(parts.plan),
      tape_(tape),
      survey_(survey),
      most_tasks_(most_tasks),
      lanes_(parts.plan),
      copy_tensor_(tape.copies().size()) {}

void PlanWriter::write_forward() {
  begin(false);
  tape_.replay(*this);
  end();
  write_outputs(attention::kPartial, result_);
  final_result_ = result_;
}

void PlanWriter::write_backward() {
  begin(true);
  home_key_gradient_.assign(plan_.problem.workers, {});
  copy_key_gradient_.assign(tape_.copies().size(), {});
  prepare_gradients();
  tape_.replay(*this);
  end();
  write_outputs(attention::kQueryGradient, result_);
  write_outputs(attention::kKeyValueGradient, home_key_gradient_);
}

void PlanWriter::begin(bool backward) {
  backward_ = backward;
  attends_ = 0;
  const std::uint64_t moves = survey_.query_moves * (backward ? 2 : 1) +
                              survey_.key_moves * (backward ? 3 : 1) + survey_.returns;
  const std::uint64_t tasks =
      survey_.attends * (backward ? 3 : 2) + 2 * moves + 3 * plan_.problem.workers;
  if (plan_.tasks.size() + tasks > most_tasks_)
    fail("this plan needs more than {} tasks; use fewer workers", most_tasks_);
  plan_.tasks.reserve(plan_.tasks.size() + tasks);

  first_step_ = plan_.tasks.empty() ? 0 : plan_.tasks.back().step + 1;
  step_ = first_step_;
  result_.assign(plan_.problem.workers, {});
  posted_.assign(lanes_.all, {});
  computed_.assign(plan_.problem.workers, 0);
}

void PlanWriter::end() {
  add_arrived_gradients();
  if (!finished_copies_.empty()) {
    ++step_;
    send_gradients_home();
    add_arrived_gradients();
  }
  // A schedule may count steps beyond its last task.
  const bool none = plan_.tasks.empty() || plan_.tasks.back().step < first_step_;
  step_ = none ? first_step_ : plan_.tasks.back().step;
}

void PlanWriter::step(Step s) {
  add_arrived_gradients();
  step_ = first_step_ + s;
  send_gradients_home();
}

void PlanWriter::move(std::uint32_t copy, bool of_keys, Lane lane) {
  const Survey::Use& use = survey_.copies[copy];
  if (!use.any()) return;
  const Copy& made = tape_.copies()[copy];
  const RegionId rows = parts_.region({{use.first}, use.end - use.first});
  const ValueId value = of_keys ? attention::kKeyValue : attention::kQuery;
  const WorkerId from = worker(made.from), to{made.worker};
  copy_tensor_[copy] = transfer(tensor(value, made.from), value, rows, from, to, lane);
  if (!backward_) return;
  if (of_keys)
    hand_on_gradient(made.from, copy);
  else
    copy_prepared_[copy] =
        transfer(prepared(made.from), attention::kPreparedGradient, rows, from, to, lane);
}

void PlanWriter::attend(const Tape::Attend& a) {
  const WorkerId here = worker(a.queries);
  Task& task =
      add(backward_ ? TaskKind::AttendBackward : TaskKind::Attend,
          backward_ ? attention::kQueryGradient : attention::kPartial, here, a.rows, a.work);
  task.keys = a.key_rows;
  const TensorId q = tensor(attention::kQuery, a.queries), k = tensor(attention::kKeyValue, a.keys);
  const Result made{last_output(), a.rows, owner(a.queries), here};
  if (backward_) {
    task.inputs = {q, prepared(a.queries), k};
    add_key_gradient(a.keys, last_output(1), a.key_rows);
  } else {
    task.inputs = {q, k, {}};
  }
  ++attends_;
  if (a.merged)
    merge(made);
  else
    waiting_[a.result] = made;
}

void PlanWriter::move_result(std::uint32_t from, std::uint32_t to, WorkerId worker) {
  Result moved = waiting_[from];
  moved.tensor = transfer(moved.tensor, backward_ ? attention::kQueryGradient : attention::kPartial,
                          moved.rows, moved.worker, worker, Lane::Return);
  moved.worker = worker;
  waiting_[to] = moved;
}

void PlanWriter::merge(std::uint32_t result) { merge(waiting_[result]); }

void PlanWriter::merge(const Result& r) {
  accumulate(backward_ ? attention::kQueryGradient : attention::kPartial, r.worker,
             result_[r.owner.value], {r.tensor, r.rows});
}

// The task is filled where it stands: building it elsewhere and copying it costs a third of all the
// time there is.
Task& PlanWriter::add(TaskKind kind, ValueId value, WorkerId worker, RegionId rows, WorkId work,
                      Lane lane) {
  const PieceId piece = parts_.piece(value, rows);
  bool with_previous = false;
  std::uint32_t& computed = computed_[worker.value];
  if (lane == Lane::Compute) {
    ++computed;
  } else {
    Posted& open = posted_[lanes_.of(worker, lane)];
    with_previous = open == Posted{step_, computed};
    open = {step_, computed};
  }
  Task& task = plan_.tasks.emplace_back();
  task.kind = kind;
  task.lane = lane;
  task.with_previous = with_previous;
  task.worker_index = static_cast<std::uint16_t>(worker.value);
  task.step = step_;
  task.work = work;
  task.piece = piece;
  return task;
}

TensorId PlanWriter::transfer(TensorId tensor, ValueId value, RegionId rows, WorkerId from,
                              WorkerId to, Lane lane) {
  const WorkId work = parts_.work(value, rows);
  const TaskId send{static_cast<std::uint32_t>(plan_.tasks.size())}, receive{send.value + 1};
  Task& sending = add(TaskKind::Send, value, from, rows, work, lane);
  sending.inputs[0] = tensor;
  sending.peer = receive;
  Task& receiving = add(TaskKind::Receive, value, to, rows, work, lane);
  receiving.peer = send;
  receiving.completes = lane != Lane::Return;  // operands are complete; what returns is a part
  return plan_.output(receive);
}

void PlanWriter::accumulate(ValueId value, WorkerId worker, Accumulator& sum, Accumulator added) {
  if (!sum.tensor.valid()) {
    sum = added;
    return;
  }
  RegionId into = sum.rows;
  if (sum.rows != added.rows) {
    const Region a = plan_.regions[sum.rows.value], b = plan_.regions[added.rows.value];
    const std::uint32_t first = std::min(a.first.value, b.first.value);
    into = parts_.region({{first}, std::max(a.end(), b.end()) - first});
    // Add the smaller to the larger, which can then be done in place.
    if (into == added.rows) std::swap(sum, added);
  }
  const TaskKind kind = value == attention::kPartial ? TaskKind::Merge : TaskKind::Reduce;
  Task& task = add(kind, value, worker, into, parts_.work(value, added.rows));
  task.inputs[0] = sum.tensor;
  task.inputs[1] = added.tensor;
  sum = {last_output(), into};
}

void PlanWriter::write_outputs(ValueId value, const std::vector<Accumulator>& results) {
  for (std::uint32_t w = 0; w < results.size(); ++w) {
    if (!results[w].tensor.valid()) continue;
    const RegionId rows = results[w].rows;
    mark_complete(plan_, results[w].tensor);
    add(TaskKind::Output, value, WorkerId{w}, rows, parts_.work(value, rows)).inputs[0] =
        results[w].tensor;
  }
}

}  // namespace ringsched
