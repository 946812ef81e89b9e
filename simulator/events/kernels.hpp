// Kernels: computing tasks, and their speed beside everything else on the device.
#pragma once

#include <algorithm>
#include <tuple>

#include "run.hpp"

namespace ringsched {

// False if it takes no time.
inline bool EventRun::start_kernel(std::uint32_t id, Cause cause) {
  const Task& task = plan_.tasks[id];
  out_.cause[id] = now_ == 0 ? Cause{} : cause;
  const std::int64_t duration = costs_.compute(id, task);
  if (duration == 0 || !workload_.turns) out_.start[id] = now_;
  if (duration == 0) return false;
  WorkerState& w = workers_[task.worker_index];
  lanes_[numbers_.of(task)].posted = true;
  w.kernel = id;
  w.ready = w.started = w.since = now_;
  w.left = static_cast<double>(duration);
  w.speed = w.late = w.longer = 0;
  if (workload_.turns) {
    w.in_line = true;
    devices_[device_of(task.worker_index)].line.push_back(task.worker_index);
    to_give_.push_back(device_of(task.worker_index));
  } else {
    changed(task.worker_index, +1);
  }
  return true;
}

// The most work left comes first; of equals, the one that came first.
inline void EventRun::give_turns() {
  for (const std::uint32_t device : to_give_) {
    DeviceState& d = devices_[device];
    while (d.kernels < workload_.concurrency && !d.line.empty()) {
      const auto first =
          std::min_element(d.line.begin(), d.line.end(), [&](std::uint32_t x, std::uint32_t y) {
            const auto key = [&](std::uint32_t w) {
              return std::tuple(-work_left_[workers_[w].kernel], workers_[w].ready, w);
            };
            return key(x) < key(y);
          });
      const std::uint32_t worker = *first;
      d.line.erase(first);
      WorkerState& w = workers_[worker];
      w.in_line = false;
      w.started = w.since = out_.start[w.kernel] = now_;
      if (now_ > w.ready) out_.cause[w.kernel] = {Cause::Kernel, d.ended & kTaskBits};
      changed(worker, +1);
    }
  }
  to_give_.clear();
}

// A computation is over: a task, or all members of a repack, whose first member has all the time.
inline void EventRun::end_unit(std::uint32_t index) {
  const LaneState& l = lanes_[index];
  const std::uint32_t first = order_[l.at], end = unit_end(l);
  for (std::uint32_t i = l.at + 1; i < end; ++i) {
    out_.start[order_[i]] = now_;
    out_.cause[order_[i]] = {Cause::Member, first & kTaskBits};
  }
  complete(index, end);
}

inline void EventRun::end_kernel(std::uint32_t id) {
  const Task& task = plan_.tasks[id];
  WorkerState& w = workers_[task.worker_index];
  w.kernel = kNone;
  w.in_tail = false;
  end_unit(numbers_.of(task));
  wake(numbers_.of(task));
  changed(task.worker_index, -1);
  if (workload_.turns) {
    to_give_.push_back(device_of(task.worker_index));
    devices_[to_give_.back()].ended = id;
  }
  release_held(w);
}

// Transfers that wait for a kernel can start.
inline void EventRun::release_held(WorkerState& w) {
  for (const std::uint32_t lane : w.held) {
    lanes_[lane].waiting = false;
    wake(lane);
  }
  w.held.clear();
}

// A kernel has started or ended on a worker: the other kernels on its device change speed.
inline void EventRun::changed(std::uint32_t worker, int kernels) {
  if (!devices_shared_) return set_speed(worker);
  const std::uint32_t device = device_of(worker);
  devices_[device].kernels += static_cast<std::uint32_t>(kernels);
  set_speeds(device);
}

inline void EventRun::set_speeds(std::uint32_t device) {
  const std::uint32_t per_device = network_of().workers_per_device();
  const std::uint32_t last = std::min((device + 1) * per_device, plan_.problem.workers);
  for (std::uint32_t w = device * per_device; w < last; ++w) set_speed(w);
  if (workload_.copy_cores > 0) network_.share_cores(device, core_share(devices_[device]));
}

// A message that a processor copies at each end begins to move, or has ended.
inline void EventRun::change_copies(const Flow& flow, int by) {
  if (workload_.copy_cores == 0) return;
  const auto [from, to] = flow.copying.devices;
  devices_[from].copies += static_cast<std::uint32_t>(by);
  set_speeds(from);
  if (to == from) return;
  devices_[to].copies += static_cast<std::uint32_t>(by);
  set_speeds(to);
}

inline double EventRun::wanted(const DeviceState& d) const {
  return d.kernels + static_cast<double>(workload_.copy_cores) * d.copies;
}
// Kernels and copies share cores evenly.
inline double EventRun::core_share(const DeviceState& d) const {
  const double all = wanted(d);
  return all > workload_.concurrency ? workload_.concurrency / all : 1;
}

inline void EventRun::set_speed(std::uint32_t worker) {
  WorkerState& w = workers_[worker];
  if (!w.computes()) return;
  double speed = 1 / costs_.slowed(plan_.tasks[w.kernel], w.groups);
  if (devices_shared_) {
    const DeviceState& d = devices_[device_of(worker)];
    speed *= core_share(d) / slowdown_of(workload_, wanted(d));
  }
  // Transfers of the moment in which a kernel starts come first, unless an SM is free at once.
  const double late = w.late;
  if (now_ == w.started && !w.in_tail)
    w.late = costs_.late(w.kernel, plan_.tasks[w.kernel], w.groups);
  const bool start_late = w.late > 0 && w.groups == 0;
  if (speed == w.speed && w.late == late && !start_late) return;
  w.left = std::max(0.0, w.left - w.speed * static_cast<double>(now_ - w.since));
  w.since = now_;
  w.speed = speed;
  if (start_late) start_late_blocks(w);
  schedule_end(worker);
}

// The SMs are free that the rest of a kernel's blocks have waited for.
inline void EventRun::start_late_blocks(WorkerState& w) {
  w.longer = std::max(0.0, w.late - w.left);
  w.left += w.longer;
  w.late = 0;
}

inline void EventRun::schedule_end(std::uint32_t worker) {
  WorkerState& w = workers_[worker];
  schedule(after(now_, flow_ps(w.left, w.speed)), KernelEnds, w.kernel, ++w.version);
  if (w.in_tail || !(workload_.waits_for_kernel || w.late > 0)) return;
  const double until = w.left - w.longer - costs_.tail(w.kernel, plan_.tasks[w.kernel]);
  if (until < w.left)
    schedule(after(now_, flow_ps(std::max(0.0, until), w.speed)), GoesOn, worker,
             kTail + w.version);
}

// A kernel's first SMs have done all that they had.
inline void EventRun::reach_tail(std::uint32_t worker) {
  WorkerState& w = workers_[worker];
  w.in_tail = true;
  if (w.late > 0) {
    w.left = std::max(0.0, w.left - w.speed * static_cast<double>(now_ - w.since));
    w.since = now_;
    start_late_blocks(w);
    schedule_end(worker);
  }
  release_held(w);
}

}  // namespace ringsched
