// The event engine: it holds the state of every lane, worker, device and message at one instant and
// a queue of what happens next. events.cpp advances time; lanes.hpp starts tasks in lane order,
// kernels.hpp computes, messages.hpp and exchanges.hpp move data. They are compiled as one file,
// because they call each other at every event: apart they take 5% more instructions.
#pragma once

#include <utility>
#include <vector>

#include "engines.hpp"
#include "fair_share.hpp"
#include "queue.hpp"

namespace ringsched {

class EventRun {
 public:
  EventRun(const Workload&, const Conditions&, const Costs&, Simulation&);
  void run();

 private:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::int64_t kUnknown = -1;
  static constexpr std::uint64_t kVersions = (std::uint64_t{1} << 30) - 1;
  static constexpr std::uint32_t kTaskBits = (1u << 29) - 1;
  static constexpr std::uint32_t kPage = 64;
  static constexpr std::uint32_t kStarts = 0, kEnds = 1, kIssued = 2, kWaited = 3;

  // An exchange continues by starting or ending, a lane because the host has issued its next task,
  // a host because its device has done all, and transfers because a kernel frees their SMs (from
  // version kTail on).
  static constexpr std::uint32_t kTail = 4;
  enum What : std::uint64_t { KernelEnds, FlowStarts, FlowsEnd, GoesOn };

  struct LaneState {
    std::uint32_t at = 0, end = 0;  // the unit (task or group) at the head, in the order of tasks
    std::uint32_t scan = 0;         // how far its members have been looked at
    std::uint32_t open = 0;         // messages that the posted group still waits for
    std::uint32_t transfer = 0;     // which of its messages' transfers the group is at
    std::uint32_t next_waiter = kNone;
    Cause cause;
    bool posted = false;
    bool waiting = false;  // it will be woken
    bool computes = false;
    std::uint32_t worker = 0;
  };

  // What runs for a worker on its device.
  struct WorkerState {
    std::uint32_t kernel = kNone;
    std::int64_t ready = 0, started = 0;  // it may wait for its turn in between
    std::int64_t since = 0;               // `left` was true then
    double left = 0;                      // of the kernel, in ps at full speed
    double speed = 1;
    std::uint32_t version = 0;
    unsigned groups = 0;              // posted and not complete
    double late = 0;                  // what the kernel's blocks take that have not started, ps
    double longer = 0;                // by how much they have made it longer, ps
    std::vector<std::uint32_t> held;  // lanes that wait for the kernel to end
    bool in_line = false;             // its kernel waits for its turn on the device
    bool in_tail = false;             // its kernel leaves transfers their SMs
    bool computes() const { return kernel != kNone && !in_line; }
  };

  // What runs on a device at one time.
  struct DeviceState {
    std::uint32_t kernels = 0;
    std::uint32_t copies = 0;         // messages that its processors copy now
    std::vector<std::uint32_t> line;  // workers whose kernels wait for their turn
    std::uint32_t ended = kNone;      // the kernel whose turn was over last
  };

  // The host of a worker, if it waits for its device now and then.
  struct HostState {
    std::uint32_t waits = 0;       // so far
    std::int64_t since = 0;        // the end of the last one
    std::uint32_t ended_last = 0;  // the task that ended it
    std::uint32_t ends_next = 0;   // the task that ends the next one
    std::size_t last = 0;          // the number of waits in all
    // By the number of waits so far: how many tasks the next one needs that have not ended, and how
    // long the host takes to issue all that it issues before it.
    std::vector<std::uint32_t> left;
    std::vector<std::int64_t> busy;
    std::vector<std::uint32_t> lanes;  // with a task that it issues only after its next wait
  };

  struct Flow {
    std::uint32_t send = kNone;  // none: of an exchange
    FairShare::Copying copying;
    std::uint32_t exchange = kNone;
  };

  struct ExchangeState {
    std::uint32_t missing = 0;  // members that are not posted yet
    std::uint32_t open = 0;     // flows on their way
  };

  // Time, in events.cpp.
  void set_up();
  void put_on_one_stream();
  void settle();
  void share_links();
  void happen(const Event&);
  [[noreturn]] void report_stuck() const;
  void schedule(std::int64_t at, What what, std::uint32_t index, std::uint32_t version = 0) {
    queue_.push({at, what << 62 | std::uint64_t{index} << 30 | (version & kVersions)});
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    if (conditions_.tie_seed == 0) return;
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[(shuffle_ = mixed(shuffle_)) % i]);
  }

  // Tasks in the order of their lanes, in lanes.hpp.
  void advance(std::uint32_t lane);
  bool goes_first(std::uint32_t kernel) const;
  bool waits(std::uint32_t lane, std::uint32_t id);
  void set_up_hosts();
  bool waits_for_host(std::uint32_t lane, std::uint32_t end);
  std::size_t awaited_at(std::uint32_t id) const;
  void end_for_host(std::uint32_t id);
  void host_goes_on(std::uint32_t worker);
  void finish(std::uint32_t id);
  void complete(std::uint32_t lane, std::uint32_t end);
  void wake(std::uint32_t lane) { (lanes_[lane].computes ? computing_ : moving_).push_back(lane); }
  std::uint32_t unit_end(const LaneState& l) const {
    std::uint32_t end = l.at + 1;
    while (end < l.end && plan_.tasks[order_[end]].with_previous) ++end;
    return end;
  }

  // Kernels, in kernels.hpp.
  bool start_kernel(std::uint32_t id, Cause);
  void give_turns();
  void end_kernel(std::uint32_t id);
  void release_held(WorkerState&);
  void end_unit(std::uint32_t lane);
  void changed(std::uint32_t worker, int kernels);
  void change_copies(const Flow&, int by);
  double wanted(const DeviceState&) const;
  double core_share(const DeviceState&) const;
  void set_speeds(std::uint32_t device);
  void set_speed(std::uint32_t worker);
  void start_late_blocks(WorkerState&);
  void schedule_end(std::uint32_t worker);
  void reach_tail(std::uint32_t worker);

  // Messages, in messages.hpp.
  void post(std::uint32_t lane, std::uint32_t end);
  void begin(std::uint32_t send);
  void start_flow(std::uint32_t send);
  void end_flow(std::uint32_t flow);
  void arrive(std::uint32_t send);
  void complete_group(std::uint32_t lane, std::uint32_t longest);
  void next_transfer(std::uint32_t lane);
  void release_sms(const LaneState&);
  void add_flow(const Flow&, const Route&, double bytes);

  // Exchanges, in exchanges.hpp.
  void join_exchange(std::uint32_t number);
  void start_exchange(std::uint32_t number);
  void unpack(std::uint32_t number);
  void end_exchange(std::uint32_t number);
  void count_links_of_exchanges();

  const Network& network_of() const { return workload_.network; }
  std::uint32_t device_of(std::uint32_t worker) const {
    return worker / network_of().workers_per_device();
  }

  const Workload& workload_;
  const Plan& plan_;
  const Conditions& conditions_;
  const Costs& costs_;
  Simulation& out_;
  FairShare network_;
  const LaneNumbers numbers_;
  std::vector<LaneState> lanes_;
  std::vector<WorkerState> workers_;
  const bool devices_shared_;
  std::vector<DeviceState> devices_;
  std::vector<HostState> hosts_;         // empty: none waits
  std::vector<std::int64_t> work_left_;  // by task; only if there are turns
  TaskColumn<std::uint32_t> order_;      // tasks lane by lane
  TaskColumn<std::uint32_t> first_waiter_;
  std::vector<std::size_t> controls_from_;  // by page of tasks
  // By the first task of a group: the last of the group before it on the same stream. Empty: each
  // lane is a stream of its own.
  TaskColumn<TaskId> stream_before_;
  // By task: how many of its message's transfers are posted at this end.
  TaskColumn<std::uint8_t> transfers_posted_;
  std::vector<ExchangeState> exchanges_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_, ended_;
  std::vector<std::uint32_t> computing_, moving_;  // lanes to look at
  std::vector<std::uint32_t> to_give_;             // devices that may have a turn to give
  EventQueue queue_;
  std::int64_t now_ = 0;
  std::size_t left_ = 0;
  std::uint64_t shuffle_;
};

}  // namespace ringsched
