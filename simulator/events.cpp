#include <algorithm>
#include <deque>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "engines.hpp"
#include "event_queue.hpp"
#include "fair_share.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/work_left.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kNone = ~0u;
constexpr std::int64_t kUnknown = -1;

struct LaneState {
  std::uint32_t at = 0, end = 0;  // the unit (task or group) at the head, in the order of tasks
  std::uint32_t scan = 0;         // how far its members have been looked at
  std::uint32_t open = 0;         // messages that the posted group still waits for
  std::uint32_t next_waiter = kNone;
  Cause cause;
  bool posted = false;
  bool waiting = false;               // somebody will wake it
  bool sending = false;               // a detached send is on its way
  std::deque<std::uint32_t> to_send;  // detached sends behind it
};

// What runs on a worker's device for it.
struct WorkerState {
  std::uint32_t kernel = kNone;
  std::int64_t started = 0;
  std::int64_t since = 0;  // `left` was true then
  double left = 0;         // of the kernel, in ps at full speed
  double speed = 1;
  std::uint32_t version = 0;
  unsigned groups = 0;               // posted and not complete
  std::vector<std::uint32_t> held;   // lanes that wait for the kernel to end
  std::vector<std::uint32_t> flows;  // messages to or from here; only if ends must poll
  bool changed = false;
  bool in_line = false;  // its kernel waits for its turn on the device
};

// What runs on a device at one time.
struct DeviceState {
  std::uint32_t kernels = 0, copies = 0;
  std::vector<std::uint32_t> line;  // workers whose kernels wait for their turn
};

struct Flow {
  std::uint32_t send = kNone;
  bool moving = false;
  double left = 0;
  Route route;
};

class Run {
 public:
  Run(const Workload& w, const Conditions& c, const Costs& costs, Simulation& s)
      : workload_(w),
        plan_(*w.plan),
        conditions_(c),
        costs_(costs),
        out_(s),
        network_(w.network),
        lanes_(std::size_t{plan_.problem.workers} * kLanes),
        workers_(plan_.problem.workers),
        devices_shared_(w.copy_cores > 0 || w.turns ||
                        w.network.workers_per_device() > w.concurrency),
        devices_(plan_.problem.workers),
        shuffle_(c.tie_seed) {
    if (w.turns) work_left_ = work_left(plan_);
  }

  void run() {
    set_up();
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) wake(l);
    settle();
    std::vector<Event> batch;
    while (!queue_.empty()) {
      now_ = queue_.first().at;
      batch.clear();
      for (; !queue_.empty() && queue_.first().at == now_; queue_.pop())
        batch.push_back(queue_.first());
      shuffle(batch);
      for (const Event& e : batch) happen(e);
      settle();
    }
    if (left_ > 0) report_stuck();
    out_.links.assign(network_.use().begin(), network_.use().end());
    out_.by_events = true;
  }

 private:
  enum What : std::uint64_t { KernelEnds, FlowStarts, FlowsEnd };
  static constexpr std::uint64_t kVersions = (std::uint64_t{1} << 30) - 1;
  static constexpr std::uint32_t kTaskBits = (1u << 29) - 1;

  void schedule(std::int64_t at, What what, std::uint32_t index, std::uint32_t version = 0) {
    queue_.push({at, what << 62 | std::uint64_t{index} << 30 | (version & kVersions)});
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    if (conditions_.tie_seed == 0) return;
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[(shuffle_ = mixed(shuffle_)) % i]);
  }

  void set_up() {
    const std::size_t count = plan_.tasks.size();
    out_.start.assign(count, kUnknown);
    out_.end.assign(count, kUnknown);
    out_.cause.resize(count);
    first_waiter_.assign(count, kNone);
    order_.resize(count);
    for (const Task& t : plan_.tasks) ++lanes_[lane_of(t)].end;
    std::uint32_t total = 0;
    for (LaneState& l : lanes_) {
      l.at = l.scan = total;
      total += l.end;
      l.end = l.at;  // as far as it is filled
    }
    for (std::uint32_t id = 0; id < count; ++id)
      order_[lanes_[lane_of(plan_.tasks[id])].end++] = id;
    left_ = count;
    // Where the controls of a task begin; looked up by task, in pages of some.
    std::size_t c = 0;
    for (std::uint32_t id = 0; id < count; id += kPage) {
      while (c < plan_.controls.size() && plan_.controls[c].after.value < id) ++c;
      controls_from_.push_back(c);
    }
  }

  void wake(std::uint32_t lane) { (lane % kLanes == 0 ? computing_ : moving_).push_back(lane); }

  // All that can start now, starts: messages first, as a library launches them before the kernel.
  void settle() {
    do {
      while (!moving_.empty() || !computing_.empty()) {
        auto& from = moving_.empty() ? computing_ : moving_;
        shuffle(from);
        const std::uint32_t lane = from.back();
        from.pop_back();
        advance(lane);
      }
      give_turns();
      if (conditions_.progress == Progress::Polling) pause_and_resume();
      network_.solve(now_);
      for (const FairShare::Due& d : network_.due()) schedule(d.at, FlowsEnd, d.group, d.version);
      network_.due().clear();
    } while (!moving_.empty() || !computing_.empty());
  }

  void happen(const Event& e) {
    const auto index = static_cast<std::uint32_t>(e.number >> 30);
    const std::uint64_t version = e.number & kVersions;
    switch (static_cast<What>(e.number >> 62)) {
      case KernelEnds: {
        const WorkerState& w = workers_[plan_.tasks[index].worker_index];
        if (w.kernel == index && (w.version & kVersions) == version) end_kernel(index);
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
    }
  }

  std::uint32_t unit_end(const LaneState& l) const {
    std::uint32_t end = l.at + 1;
    while (end < l.end && plan_.tasks[order_[end]].with_previous) ++end;
    return end;
  }

  void advance(std::uint32_t index) {
    LaneState& l = lanes_[index];
    while (l.at < l.end && !l.posted && !l.waiting) {
      const std::uint32_t end = unit_end(l);
      if (l.scan < l.at) l.scan = l.at;
      for (; l.scan < end; ++l.scan)
        if (waits(index, order_[l.scan])) return;
      const std::uint32_t first = order_[l.at];
      if (!is_transfer(plan_.tasks[first].kind)) {
        if (start_kernel(first, l.cause)) return;
        complete(index, end);
        continue;
      }
      WorkerState& w = workers_[index / kLanes];
      if (workload_.waits_for_kernel && w.kernel != kNone && w.started < now_) {
        w.held.push_back(index);
        l.waiting = true;
        l.cause = {Cause::Kernel, w.kernel & kTaskBits};
        return;
      }
      post(index, end);
    }
  }

  // Does a task of this lane wait for another that has not ended? Then the lane is told when it
  // has.
  bool waits(std::uint32_t lane, std::uint32_t id) {
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
    std::size_t c = controls_from_[id / kPage];
    for (; c < plan_.controls.size() && plan_.controls[c].after.value < id; ++c) {
    }
    for (; c < plan_.controls.size() && plan_.controls[c].after.value == id; ++c)
      if (missing(plan_.controls[c].before, Cause::Control)) return true;
    return false;
  }

  void finish(std::uint32_t id) {
    out_.end[id] = now_;
    --left_;
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
  void complete(std::uint32_t index, std::uint32_t end) {
    LaneState& l = lanes_[index];
    const std::uint32_t last = order_[end - 1];
    for (std::uint32_t i = l.at; i < end; ++i) {
      const bool detached =
          conditions_.detached_sends && plan_.tasks[order_[i]].kind == TaskKind::Send;
      if (!detached) finish(order_[i]);
    }
    l.at = l.scan = end;
    l.posted = false;
    l.cause = {Cause::Lane, last & kTaskBits};
  }

  // --- Kernels ---

  // False if it takes no time.
  bool start_kernel(std::uint32_t id, Cause cause) {
    const Task& task = plan_.tasks[id];
    out_.start[id] = now_;
    out_.cause[id] = now_ == 0 ? Cause{} : cause;
    const std::int64_t duration = costs_.compute(id, task);
    if (duration == 0) return false;
    WorkerState& w = workers_[task.worker_index];
    lanes_[lane_of(task)].posted = true;
    w.kernel = id;
    w.started = w.since = now_;
    w.left = static_cast<double>(duration);
    w.speed = 0;
    if (workload_.turns) {
      w.in_line = true;
      devices_[device_of(task.worker_index)].line.push_back(task.worker_index);
      to_give_.push_back(device_of(task.worker_index));
      note(task.worker_index);
    } else {
      changed(task.worker_index, +1);
    }
    return true;
  }

  // Most work left comes first, and of those equal in that who came first.
  void give_turns() {
    for (const std::uint32_t device : to_give_) {
      DeviceState& d = devices_[device];
      while (d.kernels < workload_.concurrency && !d.line.empty()) {
        const auto first =
            std::min_element(d.line.begin(), d.line.end(), [&](std::uint32_t x, std::uint32_t y) {
              const auto key = [&](std::uint32_t w) {
                return std::tuple(-work_left_[workers_[w].kernel], workers_[w].started, w);
              };
              return key(x) < key(y);
            });
        const std::uint32_t worker = *first;
        d.line.erase(first);
        workers_[worker].in_line = false;
        workers_[worker].since = now_;
        changed(worker, +1);
      }
    }
    to_give_.clear();
  }

  void end_kernel(std::uint32_t id) {
    const Task& task = plan_.tasks[id];
    WorkerState& w = workers_[task.worker_index];
    w.kernel = kNone;
    complete(lane_of(task), lanes_[lane_of(task)].at + 1);
    wake(lane_of(task));
    changed(task.worker_index, -1);
    if (workload_.turns) to_give_.push_back(device_of(task.worker_index));
    for (const std::uint32_t lane : w.held) {
      lanes_[lane].waiting = false;
      wake(lane);
    }
    w.held.clear();
  }

  // A kernel has started or ended on a worker: others on its device go at another speed.
  void changed(std::uint32_t worker, int kernels) {
    note(worker);
    if (!devices_shared_) return set_speed(worker);
    const std::uint32_t device = device_of(worker);
    devices_[device].kernels += static_cast<std::uint32_t>(kernels);
    set_speeds(device);
  }

  void set_speeds(std::uint32_t device) {
    const std::uint32_t per_device = network_of().workers_per_device();
    const std::uint32_t last = std::min((device + 1) * per_device, plan_.problem.workers);
    for (std::uint32_t w = device * per_device; w < last; ++w) set_speed(w);
  }

  // A message begins, or has ended, which a processor copies at each of its ends.
  void copying(std::uint32_t send, int begins) {
    if (workload_.copy_cores == 0) return;
    const Task& task = plan_.tasks[send];
    const std::uint32_t from = device_of(task.worker_index);
    const std::uint32_t to = device_of(plan_.tasks[task.peer.value].worker_index);
    devices_[from].copies += static_cast<std::uint32_t>(begins);
    set_speeds(from);
    if (to == from) return;
    devices_[to].copies += static_cast<std::uint32_t>(begins);
    set_speeds(to);
  }

  void set_speed(std::uint32_t worker) {
    WorkerState& w = workers_[worker];
    if (w.kernel == kNone || w.in_line) return;
    double speed = 1 / costs_.slowed(plan_.tasks[w.kernel], w.groups);
    if (devices_shared_) {
      const DeviceState& d = devices_[device_of(worker)];
      speed *= std::min(1.0, workload_.for_kernels(d.copies) / d.kernels);
    }
    if (speed == w.speed) return;
    w.left = std::max(0.0, w.left - w.speed * static_cast<double>(now_ - w.since));
    w.since = now_;
    w.speed = speed;
    schedule(after(now_, flow_ps(w.left, speed)), KernelEnds, w.kernel, ++w.version);
  }

  // --- Messages ---

  void post(std::uint32_t index, std::uint32_t end) {
    LaneState& l = lanes_[index];
    l.posted = true;
    l.open = 0;
    WorkerState& w = workers_[index / kLanes];
    const bool takes_sms = !workload_.slowed[0].empty();
    const Cause cause = now_ == 0 ? Cause{} : l.cause;
    for (std::uint32_t i = l.at; i < end; ++i) {
      if (conditions_.detached_sends && plan_.tasks[order_[i]].kind == TaskKind::Send)
        l.to_send.push_back(order_[i]);
      out_.start[order_[i]] = now_;
      out_.cause[order_[i]] = i == l.at ? cause : Cause{Cause::Member, order_[l.at] & kTaskBits};
      if (!conditions_.detached_sends || plan_.tasks[order_[i]].kind == TaskKind::Receive) ++l.open;
    }
    if (takes_sms && ++w.groups) set_speed(index / kLanes);
    // Beginning a message may complete a group at once, so look at the members of this one only.
    const std::uint32_t first = l.at;
    for (std::uint32_t i = first; i < end; ++i) {
      const Task& task = plan_.tasks[order_[i]];
      if (out_.start[task.peer.value] == kUnknown) continue;
      begin(task.kind == TaskKind::Send ? order_[i] : task.peer.value);
    }
    if (l.posted && l.at == first && l.open == 0) complete_group(index, kNone);
  }

  // Both ends of a message are posted.
  void begin(std::uint32_t send) {
    if (conditions_.detached_sends) {
      send_next(lanes_[lane_of(plan_.tasks[send])]);
    } else {
      set_out(send);
    }
  }

  // Detached sends leave a lane one after the other, in its order.
  void send_next(LaneState& l) {
    if (l.sending || l.to_send.empty()) return;
    const std::uint32_t send = l.to_send.front();
    if (out_.start[plan_.tasks[send].peer.value] == kUnknown) return;
    l.to_send.pop_front();
    l.sending = true;
    set_out(send);
  }

  void set_out(std::uint32_t send) {
    const Task& task = plan_.tasks[send];
    const Distance d = network_of().distance(task.worker(), plan_.tasks[task.peer.value].worker());
    const std::int64_t startup = costs_.message(send, task, d).startup_ps;
    copying(send, +1);
    if (startup > 0) {
      schedule(after(now_, startup), FlowStarts, send);
    } else {
      start_flow(send);
    }
  }

  void start_flow(std::uint32_t send) {
    const Task& task = plan_.tasks[send];
    const std::uint32_t to = plan_.tasks[task.peer.value].worker_index;
    const Route route = network_of().route(task.worker(), {to});
    const double bytes = costs_.message(send, task, route.distance).bytes;
    if (route.count == 0 || bytes <= 0) return land(send);
    if (free_flows_.empty()) {
      free_flows_.push_back(static_cast<std::uint32_t>(flows_.size()));
      flows_.emplace_back();
    }
    const std::uint32_t f = free_flows_.back();
    free_flows_.pop_back();
    flows_[f] = {send, false, bytes, route};
    if (conditions_.progress == Progress::Polling) {
      for (const std::uint32_t w : {std::uint32_t{task.worker_index}, to}) {
        workers_[w].flows.push_back(f);
        note(w);
      }
    } else {
      flows_[f].moving = true;
      network_.start(f, route, bytes, now_);
    }
  }

  void end_flow(std::uint32_t f) {
    const std::uint32_t send = flows_[f].send;
    if (conditions_.progress == Progress::Polling) {
      const Task& task = plan_.tasks[send];
      for (const std::uint32_t w : {std::uint32_t{task.worker_index},
                                    std::uint32_t{plan_.tasks[task.peer.value].worker_index}})
        std::erase(workers_[w].flows, f);
    }
    free_flows_.push_back(f);
    land(send);
  }

  void land(std::uint32_t send) {
    copying(send, -1);
    arrive(send);
  }

  void arrive(std::uint32_t send) {
    const Task& task = plan_.tasks[send];
    const std::uint32_t lane = lane_of(task);
    if (conditions_.detached_sends) {
      finish(send);
      lanes_[lane].sending = false;
    } else if (--lanes_[lane].open == 0) {
      complete_group(lane, send);
    }
    const std::uint32_t other = lane_of(plan_.tasks[task.peer.value]);
    if (--lanes_[other].open == 0) complete_group(other, task.peer.value);
    if (conditions_.detached_sends) send_next(lanes_[lane]);
  }

  void complete_group(std::uint32_t index, std::uint32_t longest) {
    LaneState& l = lanes_[index];
    const std::uint32_t end = unit_end(l);
    if (longest != kNone)
      for (std::uint32_t i = l.at + 1; i < end; ++i)
        out_.cause[order_[i]] = {Cause::Member, longest & kTaskBits};
    complete(index, end);
    if (longest != kNone) l.cause = {Cause::Lane, longest & kTaskBits};
    wake(index);
    if (!workload_.slowed[0].empty()) {
      --workers_[index / kLanes].groups;
      set_speed(index / kLanes);
    }
  }

  void note(std::uint32_t worker) {
    if (conditions_.progress != Progress::Polling || workers_[worker].changed) return;
    workers_[worker].changed = true;
    changed_.push_back(worker);
  }

  void pause_and_resume() {
    for (const std::uint32_t worker : changed_) {
      workers_[worker].changed = false;
      for (const std::uint32_t f : workers_[worker].flows) {
        Flow& flow = flows_[f];
        const Task& task = plan_.tasks[flow.send];
        const bool may = workers_[task.worker_index].kernel == kNone &&
                         workers_[plan_.tasks[task.peer.value].worker_index].kernel == kNone;
        if (may == flow.moving) continue;
        flow.moving = may;
        if (may) {
          network_.start(f, flow.route, flow.left, now_);
        } else {
          flow.left = network_.stop(f, now_);
        }
      }
    }
    changed_.clear();
  }

  const Network& network_of() const { return workload_.network; }
  std::uint32_t device_of(std::uint32_t worker) const {
    return worker / network_of().workers_per_device();
  }

  [[noreturn]] void report_stuck() const {
    for (const LaneState& l : lanes_) {
      if (l.at == l.end) continue;
      const std::uint32_t id = order_[l.scan < l.end ? l.scan : l.at];
      const Task& task = plan_.tasks[id];
      fail(
          "the plan never ends: task {}, {} of worker {} at step {}, waits for ever ({} tasks "
          "left)",
          id, to_text(task.kind), task.worker_index, task.step, left_);
    }
    throw std::logic_error("tasks are left, but no lane has any");
  }

  static constexpr std::uint32_t kPage = 64;

  const Workload& workload_;
  const Plan& plan_;
  const Conditions& conditions_;
  const Costs& costs_;
  Simulation& out_;
  FairShare network_;
  std::vector<LaneState> lanes_;
  std::vector<WorkerState> workers_;
  const bool devices_shared_;
  std::vector<DeviceState> devices_;
  std::vector<std::int64_t> work_left_;  // by task; only if there are turns
  TaskColumn<std::uint32_t> order_;      // tasks lane by lane
  TaskColumn<std::uint32_t> first_waiter_;
  std::vector<std::size_t> controls_from_;  // by page of tasks
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_, ended_;
  std::vector<std::uint32_t> computing_, moving_;  // lanes to look at
  std::vector<std::uint32_t> to_give_;             // devices that may have a turn to give
  std::vector<std::uint32_t> changed_;             // workers whose messages may pause or go on
  EventQueue queue_;
  std::int64_t now_ = 0;
  std::size_t left_ = 0;
  std::uint64_t shuffle_;
};

}  // namespace

void run_events(const Workload& w, const Conditions& c, const Costs& costs, Simulation& out) {
  Run(w, c, costs, out).run();
}

}  // namespace ringsched
