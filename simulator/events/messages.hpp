// Messages: posted at both ends, in flight, and arrived. If a message is several transfers, its
// group is posted again for each: once all messages of the group have made the one before, and if
// kernels stand in the way, once they let it pass.
#pragma once

#include "run.hpp"

namespace ringsched {

inline void EventRun::post(std::uint32_t index, std::uint32_t end) {
  LaneState& l = lanes_[index];
  l.posted = true;
  const std::uint32_t transfer = l.transfer;
  const auto takes_part = [&](std::uint32_t i) {
    return transfer < workload_.transfers_of(plan_.tasks[order_[i]]);
  };
  WorkerState& w = workers_[l.worker];
  const bool takes_sms = !workload_.slowed[0].empty();
  const Cause cause = now_ == 0 ? Cause{} : l.cause;
  l.open = 0;
  for (std::uint32_t i = l.at; i < end; ++i) {
    if (transfer == 0) {
      out_.start[order_[i]] = now_;
      out_.cause[order_[i]] = i == l.at ? cause : Cause{Cause::Member, order_[l.at] & kTaskBits};
    }
    if (!takes_part(i)) continue;
    ++l.open;
    if (!transfers_posted_.empty()) ++transfers_posted_[order_[i]];
  }
  if (takes_sms && ++w.groups) set_speed(l.worker);
  if (is_exchange(plan_.tasks[order_[l.at]].kind))
    return join_exchange(plan_.tasks[order_[l.at]].exchange.value);
  // Starting a message may complete a group at once, so look only at the members of this one.
  const std::uint32_t first = l.at;
  for (std::uint32_t i = first; i < end; ++i) {
    const std::uint32_t peer = plan_.tasks[order_[i]].peer.value;
    if (!takes_part(i) || out_.start[peer] == kUnknown) continue;
    if (!transfers_posted_.empty() && transfers_posted_[peer] <= transfer) continue;
    begin(is_send(plan_.tasks[order_[i]].kind) ? order_[i] : peer);
  }
  if (l.posted && l.at == first && l.open == 0) complete_group(index, kNone);
}

// Both ends of a message are posted, or of its next transfer.
inline void EventRun::begin(std::uint32_t send) {
  const Task& task = plan_.tasks[send];
  const Distance d = network_of().distance(task.worker(), plan_.tasks[task.peer.value].worker());
  std::int64_t startup = costs_.message(send, task, d).startup_ps / workload_.transfers_of(task);
  if (workload_.copy_cores > 0)
    startup = std::min(startup, workload_.latency[static_cast<std::size_t>(d)]);
  if (startup > 0) {
    schedule(after(now_, startup), FlowStarts, send);
  } else {
    start_flow(send);
  }
}

inline void EventRun::start_flow(std::uint32_t send) {
  const Task& task = plan_.tasks[send];
  const std::uint32_t to = plan_.tasks[task.peer.value].worker_index;
  const Route route = network_of().route(task.worker(), {to});
  MessageCost message = costs_.message(send, task, route.distance);
  message.startup_ps /= workload_.transfers_of(task);
  message.bytes /= workload_.transfers_of(task);
  FairShare::Copying copying;
  if (workload_.copy_cores > 0) {
    // Such a message moves as fast as one alone: the part of its start-up beyond the latency is
    // slower copying.
    const auto latency = workload_.latency[static_cast<std::size_t>(route.distance)];
    const double alone =
        static_cast<double>(std::max<std::int64_t>(0, message.startup_ps - latency)) +
        message.bytes / network_of().rate(route);
    copying = {message.bytes / alone, {device_of(task.worker_index), device_of(to)}};
  }
  const bool at_once = route.count == 0 && copying.rate == FairShare::Copying{}.rate;
  if (at_once || message.bytes <= 0) return arrive(send);
  add_flow({send, copying, kNone}, route, message.bytes);
}

inline void EventRun::add_flow(const Flow& flow, const Route& route, double bytes) {
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t f = free_flows_.back();
  free_flows_.pop_back();
  flows_[f] = flow;
  network_.start(f, route, flow.copying, bytes, now_);
  change_copies(flow, +1);
}

inline void EventRun::end_flow(std::uint32_t f) {
  const std::uint32_t send = flows_[f].send, exchange = flows_[f].exchange;
  change_copies(flows_[f], -1);
  free_flows_.push_back(f);
  if (send != kNone)
    arrive(send);
  else if (--exchanges_[exchange].open == 0)
    unpack(exchange);
}

inline void EventRun::arrive(std::uint32_t send) {
  const Task& task = plan_.tasks[send];
  const std::uint32_t lane = numbers_.of(task);
  if (--lanes_[lane].open == 0) complete_group(lane, send);
  const std::uint32_t other = numbers_.of(plan_.tasks[task.peer.value]);
  if (--lanes_[other].open == 0) complete_group(other, task.peer.value);
}

inline void EventRun::complete_group(std::uint32_t index, std::uint32_t longest) {
  LaneState& l = lanes_[index];
  const std::uint32_t end = unit_end(l);
  ++l.transfer;
  for (std::uint32_t i = l.at; i < end; ++i)
    if (l.transfer < workload_.transfers_of(plan_.tasks[order_[i]])) return next_transfer(index);
  l.transfer = 0;
  if (longest != kNone)
    for (std::uint32_t i = l.at + 1; i < end; ++i)
      out_.cause[order_[i]] = {Cause::Member, longest & kTaskBits};
  complete(index, end);
  if (longest != kNone) l.cause = {Cause::Lane, longest & kTaskBits};
  release_sms(l);
  wake(index);
}

inline void EventRun::next_transfer(std::uint32_t index) {
  lanes_[index].posted = false;
  release_sms(lanes_[index]);
  wake(index);
}

inline void EventRun::release_sms(const LaneState& l) {
  if (workload_.slowed[0].empty()) return;
  --workers_[l.worker].groups;
  set_speed(l.worker);
}

}  // namespace ringsched
