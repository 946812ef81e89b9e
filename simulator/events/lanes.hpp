// Lanes: each runs its tasks in order, once what a task waits for has ended.
#pragma once

#include <tuple>

#include "run.hpp"

namespace ringsched {

inline void EventRun::advance(std::uint32_t index) {
  LaneState& l = lanes_[index];
  while (l.at < l.end && !l.posted && !l.waiting) {
    const std::uint32_t end = unit_end(l);
    if (l.scan < l.at) l.scan = l.at;
    for (; l.scan < end; ++l.scan)
      if (waits(index, order_[l.scan])) return;
    if (costs_.has_host() && waits_for_host(index, end)) return;
    const std::uint32_t first = order_[l.at];
    if (!communicates(plan_.tasks[first].kind)) {
      if (start_kernel(first, l.cause)) return;
      end_unit(index);
      continue;
    }
    WorkerState& w = workers_[l.worker];
    const bool at_once = w.computes() && w.started == now_ && goes_first(w.kernel);
    if (workload_.waits_for_kernel && w.computes() && !w.in_tail && !at_once) {
      w.held.push_back(index);
      l.waiting = true;
      l.cause = {Cause::Kernel, w.kernel & kTaskBits};
      return;
    }
    post(index, end);
  }
}

// Do transfers that become ready as this kernel starts go before it? At the very start they need
// not hear of anything from another stream, and a library posts them first.
inline bool EventRun::goes_first(std::uint32_t kernel) const {
  return now_ == 0 || workload_.posts_first ||
         (workload_.backward_prepares && plan_.tasks[kernel].kind == TaskKind::AttendBackward);
}

// Does a task of this lane wait for another that has not ended? Then the lane is notified when it
// has.
inline bool EventRun::waits(std::uint32_t lane, std::uint32_t id) {
  const auto missing = [&](TaskId before, Cause::Kind kind) {
    if (!before.valid() || out_.end[before.value] != kUnknown) return false;
    lanes_[lane].cause = {kind, before.value & kTaskBits};
    lanes_[lane].waiting = true;
    lanes_[lane].next_waiter = first_waiter_[before.value];
    first_waiter_[before.value] = lane;
    return true;
  };
  for (const TensorId input : plan_.tasks[id].inputs)
    if (input.valid() && missing(plan_.producer(input), Cause::Data)) return true;
  if (!stream_before_.empty() && missing(stream_before_[id], Cause::Control)) return true;
  std::size_t c = controls_from_[id / kPage];
  for (; c < plan_.controls.size() && plan_.controls[c].after.value < id; ++c) {
  }
  for (; c < plan_.controls.size() && plan_.controls[c].after.value == id; ++c)
    if (workload_.binds(plan_.controls[c]) && missing(plan_.controls[c].before, Cause::Control))
      return true;
  return false;
}

// The groups of a worker on the lanes that every plan has, in the order of steps; in one step as
// the lanes are numbered, which is the same at both ends of a message. A schedule's own lanes are
// process groups of their own. Exchanges have streams of their own, also where messages make them.
inline void EventRun::put_on_one_stream() {
  if (!plan_.repacks.empty()) return;
  struct Group {
    Step step;
    std::uint32_t lane, first, last;
  };
  std::vector<std::vector<Group>> groups(plan_.problem.workers);
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    const LaneState& l = lanes_[number];
    if (l.computes || number % plan_.lane_count() >= kBasicLanes.size()) continue;
    for (std::uint32_t at = l.at; at < l.end; ++at) {
      const std::uint32_t id = order_[at];
      if (is_exchange(plan_.tasks[id].kind)) continue;
      if (at > l.at && plan_.tasks[id].with_previous)
        groups[l.worker].back().last = id;
      else
        groups[l.worker].push_back({plan_.tasks[id].step, number, id, id});
    }
  }
  stream_before_.assign(plan_.tasks.size(), TaskId{});
  for (std::vector<Group>& of_worker : groups) {
    std::ranges::sort(of_worker, {},
                      [](const Group& g) { return std::tuple(g.step, g.lane, g.first); });
    for (std::size_t i = 1; i < of_worker.size(); ++i)
      stream_before_[of_worker[i].first] = TaskId{of_worker[i - 1].last};
  }
}

// Must the host still issue a task of the unit at the head of this lane?
inline bool EventRun::waits_for_host(std::uint32_t lane, std::uint32_t end) {
  LaneState& l = lanes_[lane];
  std::int64_t issued = 0;
  for (std::uint32_t i = l.at; i < end; ++i) issued = std::max(issued, costs_.issued(order_[i]));
  std::uint32_t ended = 0;
  if (!hosts_.empty()) {
    HostState& h = hosts_[l.worker];
    if (workload_.waits_before[order_[l.at]] > h.waits) {
      h.lanes.push_back(lane);
      l.waiting = true;
      return true;
    }
    if (workload_.waits_before[order_[l.at]] < h.waits) return false;  // long issued
    issued = after(h.since, issued);
    ended = h.ended_last;
  }
  if (issued <= now_) return false;
  l.cause = {Cause::Host, ended & kTaskBits};
  l.waiting = true;
  schedule(issued, GoesOn, lane, kIssued);
  return true;
}

inline void EventRun::set_up_hosts() {
  if (workload_.waits_before.empty()) return;
  hosts_.resize(plan_.problem.workers);
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    HostState& h = hosts_[plan_.tasks[id].worker_index];
    const std::size_t waits = workload_.waits_before[id];
    h.left.resize(std::max(h.left.size(), awaited_at(id) + 1));
    h.busy.resize(h.left.size());
    ++h.left[awaited_at(id)];
    h.last = std::max(h.last, waits);
  }
  for (std::uint32_t w = 0; w < hosts_.size(); ++w) {
    HostState& h = hosts_[w];
    h.busy.resize(std::max(h.busy.size(), workload_.host_busy[w].size()));
    for (std::size_t i = 0; i < workload_.host_busy[w].size(); ++i) h.busy[i] = costs_.busy(w, i);
  }
}

// The index of the wait that this task must end before.
inline std::size_t EventRun::awaited_at(std::uint32_t id) const {
  const bool later = workload_.awaits_kernels && communicates(plan_.tasks[id].kind);
  return std::size_t{workload_.waits_before[id]} + later;
}

// A host that waits goes on when all that it has issued has ended, but for transfers that it does
// not wait for yet.
inline void EventRun::end_for_host(std::uint32_t id) {
  const std::uint32_t worker = plan_.tasks[id].worker_index;
  HostState& h = hosts_[worker];
  if (--h.left[awaited_at(id)] > 0 || awaited_at(id) != h.waits) return;
  h.ends_next = id;
  if (h.waits < h.last)
    schedule(std::max(now_, after(h.since, h.busy[h.waits])), GoesOn, worker, kWaited);
}

inline void EventRun::host_goes_on(std::uint32_t worker) {
  HostState& h = hosts_[worker];
  ++h.waits;
  h.since = now_;
  h.ended_last = h.ends_next;
  for (const std::uint32_t lane : h.lanes) {
    lanes_[lane].waiting = false;
    wake(lane);
  }
  h.lanes.clear();
}

inline void EventRun::finish(std::uint32_t id) {
  out_.end[id] = now_;
  --left_;
  if (!hosts_.empty()) end_for_host(id);
  std::uint32_t lane = first_waiter_[id];
  first_waiter_[id] = kNone;
  while (lane != kNone) {
    const std::uint32_t next = lanes_[lane].next_waiter;
    lanes_[lane].waiting = false;
    wake(lane);
    lane = next;
  }
}

// The unit at the head of a lane has ended.
inline void EventRun::complete(std::uint32_t index, std::uint32_t end) {
  LaneState& l = lanes_[index];
  const std::uint32_t last = order_[end - 1];
  for (std::uint32_t i = l.at; i < end; ++i) finish(order_[i]);
  l.at = l.scan = end;
  l.posted = false;
  l.cause = {Cause::Lane, last & kTaskBits};
}

}  // namespace ringsched
