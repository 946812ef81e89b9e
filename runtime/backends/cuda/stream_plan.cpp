#include "backends/cuda/stream_plan.hpp"

#include <queue>

#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/task_name.hpp"

namespace ringsched::cuda {

std::vector<CopiedPiece> pieces(const Delivery& d) {
  std::vector<CopiedPiece> out;
  for (std::size_t i = 0; i < d.to.piece.size(); ++i) {
    if (d.to.bytes[i] == 0) continue;
    const CopiedPiece next{d.to.piece[i], d.from.piece[i], d.to.bytes[i]};
    if (!out.empty() && out.back().to + out.back().bytes == next.to &&
        out.back().from + out.back().bytes == next.from)
      out.back().bytes += next.bytes;
    else
      out.push_back(next);
  }
  return out;
}

StreamPlan::StreamPlan(const Plan& plan)
    : plan_(plan), numbers_(plan), lanes_(numbers_.all), end_events_(plan.tasks.size()) {
  for (std::uint32_t& event : end_events_) event = events_++;
}

void StreamPlan::put(WorkerId worker, Lane lane, Op op) {
  lanes_[numbers_.of(worker, lane)].push_back(op);
}

void StreamPlan::wait_for(WorkerId worker, Lane lane, TaskId task) {
  put(worker, lane, {Op::Kind::Wait, task, end_events_[task.value], 0});
}

void StreamPlan::begin(WorkerId worker, Lane lane, std::span<const TaskId> tasks) {
  groups_[tasks.front().value].assign(tasks.begin(), tasks.end());
  put(worker, lane, {Op::Kind::Begin, tasks.front(), 0, 0});
}

// Members of a group end together: one event serves them all.
void StreamPlan::end(WorkerId worker, Lane lane, std::span<const TaskId> tasks) {
  for (const TaskId task : tasks) end_events_[task.value] = end_events_[tasks.front().value];
  put(worker, lane, {Op::Kind::End, tasks.front(), end_events_[tasks.front().value], 0});
}

void StreamPlan::compute(WorkerId worker, TaskId task, const Operands& operands) {
  operands_.push_back(operands);
  put(worker, plan_.tasks[task.value].lane,
      {Op::Kind::Compute, task, 0, static_cast<std::uint32_t>(operands_.size() - 1)});
}

void StreamPlan::call(WorkerId worker, Lane lane, std::function<void()> function) {
  functions_.push_back(std::move(function));
  put(worker, lane, {Op::Kind::Call, {}, 0, static_cast<std::uint32_t>(functions_.size() - 1)});
}

Delivery& StreamPlan::delivery_of(TaskId send) {
  const auto [at, is_new] =
      delivery_numbers_.try_emplace(send.value, static_cast<std::uint32_t>(deliveries_.size()));
  if (is_new) {
    deliveries_.emplace_back();
    deliveries_.back().posted = events_++;
    deliveries_.back().arrived = events_++;
  }
  return deliveries_[at->second];
}

std::uint32_t StreamPlan::delivery_number(TaskId send) const {
  return delivery_numbers_.at(send.value);
}

// The senders of a group announce that it is posted, then the receivers copy, then the senders wait
// until that is done. So whatever two groups send each other, none waits for itself.
void StreamPlan::exchange(WorkerId worker, Lane lane, const std::vector<MessageEnd>& messages) {
  for (const MessageEnd& m : messages) {
    Delivery& d = delivery_of(m.task);
    (m.sends ? d.has_sender : d.has_receiver) = true;
    (m.sends ? d.sender : d.receiver) = worker;
    (m.sends ? d.from : d.to) = m;
    if (m.sends) put(worker, lane, {Op::Kind::Record, m.task, d.posted, 0});
  }
  for (const MessageEnd& m : messages) {
    if (m.sends) continue;
    const Delivery& d = delivery_of(m.task);
    put(worker, lane, {Op::Kind::Wait, m.task, d.posted, 0});
    put(worker, lane, {Op::Kind::Copy, m.task, 0, delivery_number(m.task)});
    put(worker, lane, {Op::Kind::Record, m.task, d.arrived, 0});
  }
  for (const MessageEnd& m : messages)
    if (m.sends) put(worker, lane, {Op::Kind::Wait, m.task, delivery_of(m.task).arrived, 0});
}

std::vector<Submitted> submission_order(const StreamPlan& plan) {
  const auto& lanes = plan.lanes();
  std::vector<std::uint32_t> at(lanes.size(), 0);
  std::vector<bool> recorded(plan.events(), false);
  std::vector<std::vector<std::uint32_t>> waiting(plan.events());  // lanes, by event
  // Transfers before computing, then by the current task.
  using Ready = std::tuple<bool, std::uint32_t, std::uint32_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  std::vector<std::uint32_t> task(lanes.size(), 0);
  std::size_t left = 0;
  const auto make_ready = [&](std::uint32_t lane) {
    const bool computes = plan.numbers().lane(lane) == Lane::Compute;
    if (lanes[lane][at[lane]].task.valid()) task[lane] = lanes[lane][at[lane]].task.value;
    ready.emplace(computes, task[lane], lane);
  };
  for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
    left += lanes[lane].size();
    if (!lanes[lane].empty()) make_ready(lane);
  }
  std::vector<Submitted> out;
  out.reserve(left);
  while (!ready.empty()) {
    const std::uint32_t lane = std::get<2>(ready.top());
    ready.pop();
    const Op& op = lanes[lane][at[lane]];
    if (op.kind == Op::Kind::Wait && !recorded[op.event]) {
      waiting[op.event].push_back(lane);
      continue;
    }
    out.push_back({lane, at[lane]++});
    if (op.kind == Op::Kind::Record || op.kind == Op::Kind::End) {
      recorded[op.event] = true;
      for (const std::uint32_t other : waiting[op.event]) make_ready(other);
      waiting[op.event].clear();
    }
    if (at[lane] < lanes[lane].size()) make_ready(lane);
  }
  if (out.size() < left) throw RunFailed("a stream waits for what no stream of this process does");
  return out;
}

}  // namespace ringsched::cuda
