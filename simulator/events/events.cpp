#include <stdexcept>

#include "exchanges.hpp"
#include "kernels.hpp"
#include "lanes.hpp"
#include "messages.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/stop.hpp"
#include "ringsched/scheduler/work_left.hpp"
#include "run.hpp"

namespace ringsched {

EventRun::EventRun(const Workload& w, const Conditions& c, const Costs& costs, Simulation& s)
    : workload_(w),
      plan_(*w.plan),
      conditions_(c),
      costs_(costs),
      out_(s),
      network_(w.network, plan_.problem.workers),
      numbers_(plan_),
      lanes_(numbers_.all),
      workers_(plan_.problem.workers),
      devices_shared_(w.copy_cores > 0 || w.turns || w.full_slowdown > 1 ||
                      w.network.workers_per_device() > w.concurrency),
      devices_(plan_.problem.workers),
      shuffle_(c.tie_seed) {
  if (w.turns) work_left_ = work_left(plan_);
}

void EventRun::run() {
  set_up();
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) wake(l);
  settle();
  std::vector<Event> batch;
  for (std::uint32_t moments = 0; !queue_.empty(); ++moments) {
    if (moments % 4096 == 0) stop_here();
    now_ = queue_.first().at;
    do {
      batch.clear();
      for (; !queue_.empty() && queue_.first().at == now_; queue_.pop())
        batch.push_back(queue_.first());
      shuffle(batch);
      for (const Event& e : batch) happen(e);
      // A task that ends at an instant ends before a transfer could slip in ahead of a kernel.
      if (workload_.waits_for_kernel) share_links();
    } while (!queue_.empty() && queue_.first().at == now_);
    settle();
  }
  if (left_ > 0) report_stuck();
  out_.links.assign(network_.use().begin(), network_.use().end());
  count_links_of_exchanges();
  out_.by_events = true;
}

inline void EventRun::set_up() {
  const std::size_t count = plan_.tasks.size();
  out_.start.assign(count, kUnknown);
  out_.end.assign(count, kUnknown);
  out_.cause.resize(count);
  first_waiter_.assign(count, kNone);
  order_.resize(count);
  for (const Task& t : plan_.tasks) ++lanes_[numbers_.of(t)].end;
  std::uint32_t total = 0;
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    LaneState& l = lanes_[number];
    l.worker = numbers_.worker(number).value;
    l.computes = numbers_.lane(number) == Lane::Compute;
    l.at = l.scan = total;
    total += l.end;
    l.end = l.at;  // as far as it is filled
  }
  for (std::uint32_t id = 0; id < count; ++id)
    order_[lanes_[numbers_.of(plan_.tasks[id])].end++] = id;
  left_ = count;
  if (workload_.one_stream) put_on_one_stream();
  set_up_hosts();
  if (!workload_.transfers.empty()) transfers_posted_.assign(count, 0);
  for (const Exchange& e : plan_.exchanges) exchanges_.push_back({e.members, 0});
  // Where the controls of a task begin, looked up by page of tasks.
  std::size_t c = 0;
  for (std::uint32_t id = 0; id < count; id += kPage) {
    while (c < plan_.controls.size() && plan_.controls[c].after.value < id) ++c;
    controls_from_.push_back(c);
  }
}

// Starts everything that can start now. Messages go first, because a library launches them before
// the kernel. If they wait for kernels, the kernel goes first: it hears sooner of what they both
// wait for, on its own stream.
inline void EventRun::settle() {
  do {
    while (!moving_.empty() || !computing_.empty()) {
      // A kernel goes before a transfer that would have to wait for it.
      const bool kernel = moving_.empty() || (workload_.waits_for_kernel &&
                                              !workload_.posts_first && !computing_.empty());
      auto& from = kernel ? computing_ : moving_;
      shuffle(from);
      const std::uint32_t lane = from.back();
      from.pop_back();
      advance(lane);
    }
    give_turns();
    share_links();
  } while (!moving_.empty() || !computing_.empty());
}

inline void EventRun::share_links() {
  network_.solve(now_);
  for (const FairShare::Due& d : network_.due()) schedule(d.at, FlowsEnd, d.group, d.version);
  network_.due().clear();
}

inline void EventRun::happen(const Event& e) {
  const auto index = static_cast<std::uint32_t>(e.number >> 30);
  const std::uint64_t version = e.number & kVersions;
  switch (static_cast<What>(e.number >> 62)) {
    case KernelEnds: {
      const WorkerState& w = workers_[plan_.tasks[index].worker_index];
      if (w.kernel != index || (w.version & kVersions) != version) break;
      if (w.late > 0)
        reach_tail(plan_.tasks[index].worker_index);
      else
        end_kernel(index);
      break;
    }
    case FlowStarts:
      start_flow(index);
      break;
    case FlowsEnd: {
      const FairShare::Due due{e.at, index, static_cast<std::uint32_t>(version)};
      if (!network_.current(due)) break;
      ended_.clear();
      network_.finished(due, now_, ended_);
      for (const std::uint32_t f : ended_) end_flow(f);
      break;
    }
    case GoesOn:
      if (version == kStarts) {
        start_exchange(index);
      } else if (version == kEnds) {
        end_exchange(index);
      } else if (version == kIssued) {
        lanes_[index].waiting = false;
        wake(index);
      } else if (version == kWaited) {
        host_goes_on(index);
      } else if (WorkerState& w = workers_[index];
                 w.computes() && ((kTail + w.version) & kVersions) == version) {
        reach_tail(index);
      }
      break;
  }
}

void EventRun::report_stuck() const {
  for (const LaneState& l : lanes_) {
    if (l.at == l.end) continue;
    const std::uint32_t id = order_[l.scan < l.end ? l.scan : l.at];
    const Task& task = plan_.tasks[id];
    if (!hosts_.empty() && workload_.waits_before[id] > hosts_[task.worker_index].waits)
      fail(
          "the hosts wait for one another: the one of worker {} waits for its device before it "
          "issues task {}, {} at step {}; with host.synchronises = \"never\" they would not",
          task.worker_index, id, to_text(task.kind), task.step);
    if (!workload_.transfers.empty())
      fail(
          "with software.tensors_apart, transfers of keys and of values would wait for one "
          "another: "
          "task {}, {} of worker {} at step {}, never starts; such a library cannot run this plan",
          id, to_text(task.kind), task.worker_index, task.step);
    fail(
        "the plan deadlocks: task {}, {} of worker {} at step {}, never starts ({} tasks "
        "left)",
        id, to_text(task.kind), task.worker_index, task.step, left_);
  }
  throw std::logic_error("tasks are left, but no lane has any");
}

void run_events(const Workload& w, const Conditions& c, const Costs& costs, Simulation& out) {
  EventRun(w, c, costs, out).run();
}

}  // namespace ringsched
