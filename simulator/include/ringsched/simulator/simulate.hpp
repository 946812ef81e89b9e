// Runs a plan through time on a machine. What is modelled and what is not: docs/model.md.
//
// Time is in integer picoseconds, and events at one instant happen in the order of task ids, so
// equal inputs give equal results, bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ringsched/scheduler/exchange_form.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/storage.hpp"
#include "ringsched/simulator/network.hpp"

namespace ringsched {

// Bytes of an exchange in flight over links.
struct ExchangeFlow {
  Route route;
  std::uint32_t from = 0, to = 0;  // devices
  double bytes = 0;
  // Bytes per ps on its own cores, if processors copy; otherwise infinite.
  double copied = std::numeric_limits<double>::infinity();
  friend bool operator==(const ExchangeFlow&, const ExchangeFlow&) = default;
};

// What an exchange costs alone. Once all members are posted, they pack what they give. After the
// start-up all flows begin at once, and after the last of them the members unpack.
struct ExchangeCost {
  static constexpr std::uint32_t kLinks = ~0u;

  ExchangeForm form = ExchangeForm::Other;
  std::uint32_t nodes = 0, per_node = 0;  // of its members; per_node 0: not the same in all nodes
  std::int64_t startup = 0, wire = 0;     // ps
  double bytes = 0;                       // that pass between workers
  double moved = 0;                       // by the member that sends or gets most
  // The flows move this many times their bytes, so that they are as slow as a row of the machine
  // says.
  double stretch = 1;
  std::uint32_t row = kLinks;  // of Machine::collectives, or none: the links alone say
  double doubt = 0;            // how uncertain that is, as a share
  std::uint32_t calls = 1;     // of a library, one after the other
  std::vector<ExchangeFlow> flows;
  std::vector<std::int64_t> packing, unpacking;  // by member, ps
};

// A plan with its prices on one machine: all that the engines read.
struct Workload {
  const Plan* plan = nullptr;
  Network network;

  // By task kind and work, [kind * works + work]: how long a computing task takes alone, ps.
  std::vector<std::int64_t> compute;
  // Likewise: how many times longer beside one (two) transfers that hold SMs. Empty: no slowdown.
  std::vector<double> slowed[2];
  // A transfer starts only when the running (or just starting) kernel frees its SMs: by task kind
  // and work, this long before the kernel's end, ps at full speed; kernels with late blocks
  // have it, too. If the host waits for the device, what it posts first starts first.
  bool waits_for_kernel = false;
  bool posts_first = false;
  std::vector<std::int64_t> tail;
  std::uint32_t concurrency = 1;  // kernels side by side on one device
  bool turns = false;             // those beyond wait for their turn
  double full_slowdown = 1;       // of a kernel, when that many run
  // Of a transfer, by work, ps; then those of halves, or of several tensors (starts_apart).
  std::vector<std::int64_t> startup[kDistances];
  // Out of `concurrency`, what a message takes at both its ends while it moves: processors copy it.
  std::uint32_t copy_cores = 0;
  std::int64_t latency[kDistances] = {};  // if so: the part of the start-up that is not copying, ps

  // Replaces the prices, by task: ps of a computing task, bytes of a send. Empty: the prices.
  TaskColumn<std::int64_t> amounts;

  std::vector<ExchangeCost> exchanges;  // as in the plan

  // By task kind and work: how uncertain the rate of an attend is beside the others, as a share,
  // because the profile has none for it. Empty: it has all.
  std::vector<float> doubt;
  // What is priced by figures of something else, or beyond the ends of a table: for people.
  std::set<std::string> extrapolated;

  // By task: when the host of its worker has issued it, ps. Empty: at once.
  TaskColumn<std::int64_t> issued;
  // By task: how often its host waits until the device has done all before it issues this one;
  // `issued` counts from the end of the last wait. Empty: no host waits.
  TaskColumn<std::uint32_t> waits_before;

  // A backward attend begins with a short kernel of its own, after which transfers that became
  // ready with it get their SMs.
  bool backward_prepares = false;
  // What a worker posts on several lanes goes one group after the other.
  bool one_stream = false;
  // By value: how many transfers, one after the other, make one of its messages. Empty: one.
  std::vector<std::uint8_t> transfers;
  // Transfers do not wait for the kernels that the plan lets them follow, only for their data.
  bool free_transfers = false;
  // How much longer attends take on the slowest device; they are priced so.
  double pace = 1;
  // By task kind and work: if one (two) transfers hold SMs as the task starts: how long the blocks
  // take, ps at full speed, that can only start when the transfers have ended or the first SMs have
  // done all that they had. 0: no block waits. Empty: none of any task does.
  std::vector<std::int64_t> late[2] = {};
  // By value: is one of its messages several tensors? Those have start-ups of their own. Empty: no.
  std::vector<bool> of_tensors = {};
  // A waiting host waits for all kernels, but only for transfers posted before its last wait.
  bool awaits_kernels = false;
  // By task kind and work: what an attend takes at the peak of its device, ps. No draw is faster.
  // Empty: the peak is not known.
  std::vector<std::int64_t> at_peak = {};
  // By worker and wait: how long the host is busy before it waits, ps. Empty: no host waits.
  std::vector<std::vector<std::int64_t>> host_busy = {};

  unsigned transfers_of(const Task& t) const {
    return transfers.empty() || !is_transfer(t.kind) ? 1 : transfers[plan->value(t).value];
  }
  // Has its message the second row of start-ups? Then it is two transfers, or several tensors.
  bool starts_apart(const Task& t) const {
    return transfers_of(t) > 1 ||
           (!of_tensors.empty() && is_transfer(t.kind) && of_tensors[plan->value(t).value]);
  }
  bool binds(const ControlEdge& e) const {
    return !free_transfers || !is_transfer(plan->tasks[e.after.value].kind) ||
           is_transfer(plan->tasks[e.before.value].kind);
  }
};

// How many times longer a kernel takes beside others than alone, when this many want the device.
inline double slowdown_of(const Workload& w, double wanted) {
  if (w.full_slowdown <= 1) return 1;
  const double most = w.concurrency;
  return 1 + (w.full_slowdown - 1) * (std::min(wanted, most) - 1) / (most - 1);
}

Workload price(const Plan&, const Machine&, double diagonal = 0.5);

// How long the busiest host takes to issue a whole plan.
Picoseconds issue_time(const Plan&, const SoftwareFigures&);

// How far off the figures of a machine are in one draw (uncertainty.hpp): prices times factors.
struct Deviation {
  double attend[2][3] = {{1, 1, 1}, {1, 1, 1}};  // by pass, and full, causal or other tiles
  double doubt = 0;          // times Workload::doubt: of rates that the profile does not have
  double pass = 1;           // passes over memory
  double startup = 1;        // of messages and exchanges
  double bytes = 1;          // that take as long on their links, inside a node
  double bytes_between = 1;  // likewise, between nodes
  double host = 1;
  double model = 1;  // of the makespan: what the model leaves out

  bool operator==(const Deviation&) const = default;

  // How much longer an attend takes. `unsure`: its Workload::doubt.
  double attending(bool backward, TileForm form, double unsure) const {
    const std::size_t column = form == TileForm::Full                                         ? 0
                               : form == TileForm::Causal || form == TileForm::StrictlyCausal ? 1
                                                                                              : 2;
    return attend[backward][column] * factor(unsure * doubt);
  }
  // A deviation as a factor: +x lengthens as much as -x shortens.
  static double factor(double x) { return x < 0 ? 1 / (1 - x) : 1 + x; }
};

struct Conditions {
  double noise = 0;                 // standard deviation of each duration, as a share of it
  double straggler_share = 0;       // of the workers; the seed decides which
  double straggler_factor = 1.5;    // how many times longer they take to compute
  std::vector<double> slow_worker;  // by worker, likewise; empty: 1 each
  std::uint64_t seed = 1;
  Deviation deviation;
  bool events_only = false;    // always use events, for tests
  std::uint64_t tie_seed = 0;  // not 0: events at one instant happen in a shuffled order
};

// What fixed the start of a task, and which task that was.
struct Cause {
  enum Kind : std::uint32_t {
    None,     // it started at once
    Data,     // an input was made or arrived
    Lane,     // the lane was busy with the task, or group, before it
    Control,  // a control edge: a buffer, or a limit on how far communication runs ahead
    Kernel,   // a kernel had the SMs; where workers take turns, the core
    Member,   // of a group's second member: the member that took longest
    Host,     // the host had not issued it before; if it had waited for its device, the task that
              // ended that wait, else none
  };
  Kind kind : 3 = None;
  std::uint32_t task : 29 = 0;
};
static_assert(sizeof(Cause) == 4);

struct LinkUse {
  double bytes = 0;
  Picoseconds busy;  // with at least one message on it
  double saved = 0;  // bytes that it does not carry because a measured exchange is faster
};

// The members of a group start when it is posted and end when it is complete.
struct Simulation {
  TaskColumn<std::int64_t> start, end;  // by task, ps
  TaskColumn<Cause> cause;
  std::vector<LinkUse> links;
  Picoseconds makespan;
  bool by_events = false;  // something was shared, so events were needed
};

// Throws Error if the plan cannot finish, naming what waits for what.
Simulation simulate(const Workload&, const Conditions& = {});

}  // namespace ringsched
