#include "support/naive_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>

namespace ringsched {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Message {
  std::uint32_t send = 0, receive = 0;  // of an exchange: its number, twice
  bool of_exchange = false;
  std::uint32_t devices[2] = {};
  double startup = 0, bytes = 0, rate = 0;  // what is left of the transfer it is at
  unsigned transfers = 1, made = 0;
  double each_startup = 0, each_bytes = 0;
  double copied = kNever;  // the rate at which cores of its own copy it
  Route route;
  enum { Waiting, Starting, Flowing, Done } state = Waiting;
};

// Packing and the start-up, then messages, then unpacking.
struct Gathering {
  double before = 0, after = 0;  // what is left of them
  enum { Waiting, Before, Moving, After, Done } state = Waiting;
};

struct Group {
  std::vector<std::uint32_t> tasks;
  double posted = -1;
  unsigned transfer = 0;  // of its messages' transfers, the one that it is at
  bool done = false;
};

class Naive {
 public:
  Naive(const Workload& w, const Conditions& c) : w_(w), c_(c), plan_(*w.plan) {
    const std::size_t n = plan_.tasks.size();
    run_.start.assign(n, -1);
    run_.end.assign(n, -1);
    message_of_.resize(n);
    units_.resize(std::size_t{plan_.problem.workers} * plan_.lane_count());
    for (std::uint32_t id = 0; id < n; ++id) {
      const Task& t = plan_.tasks[id];
      auto& units = units_[std::size_t{t.worker_index} * plan_.lane_count() +
                           static_cast<std::size_t>(t.lane)];
      if (!t.with_previous || units.empty()) units.emplace_back();
      units.back().tasks.push_back(id);
      if (t.kind != TaskKind::Send) continue;
      Message m;
      m.send = id;
      m.receive = t.peer.value;
      m.route = w.network.route(t.worker(), plan_.tasks[m.receive].worker());
      m.devices[0] = device(m.send);
      m.devices[1] = device(m.receive);
      if (!w.transfers.empty()) m.transfers = w.transfers[plan_.value(t).value];
      const bool apart =
          m.transfers > 1 || (!w.of_tensors.empty() && w.of_tensors[plan_.value(t).value]);
      m.startup = static_cast<double>(w.startup[static_cast<std::size_t>(m.route.distance)]
                                               [t.work.value + apart * plan_.works.size()]);
      m.bytes = static_cast<double>(w.amounts.empty() ? plan_.works[t.work.value].bytes.value
                                                      : w.amounts[id]) /
                m.transfers;
      if (w.copy_cores > 0) {  // they copy for as long as it takes alone, but for the latency
        const double latency =
            static_cast<double>(w.latency[static_cast<std::size_t>(m.route.distance)]);
        m.copied = m.bytes / (m.startup - latency + m.bytes / w.network.rate(m.route));
        m.startup = latency;
      }
      m.each_startup = m.startup;
      m.each_bytes = m.bytes;
      message_of_[id] = message_of_[m.receive] = messages_.size();
      messages_.push_back(m);
    }
    for (std::uint32_t e = 0; e < plan_.exchanges.size(); ++e) add_exchange(e);
    left_.assign(n, -1);
    has_turn_.assign(n, false);
    late_.assign(n, 0);
    longer_.assign(n, 0);
    ready_.assign(n, -1);
  }

  NaiveRun run() {
    for (;;) {
      while (settle()) {
      }
      double step = kNever;
      set_speeds();
      for (std::uint32_t id = 0; id < left_.size(); ++id)
        if (running(id) && speed_[id] > 0) {
          step = std::min(step, left_[id] / speed_[id]);
          const double first = left_[id] - longer_[id] - tail_of(id);  // until SMs are free
          if ((w_.waits_for_kernel || late_[id] > 0) && first > 1e-3)
            step = std::min(step, first / speed_[id]);
        }
      for (const Message& m : messages_) {
        if (m.state == Message::Starting) step = std::min(step, m.startup);
        if (m.state == Message::Flowing && m.rate > 0) step = std::min(step, m.bytes / m.rate);
      }
      for (std::uint32_t id = 0; id < w_.issued.size(); ++id)
        if (const double at = issued_at(id); at > now_ && at < kNever)
          step = std::min(step, at - now_);
      for (const Gathering& g : gatherings_) {
        if (g.state == Gathering::Before) step = std::min(step, g.before);
        if (g.state == Gathering::After) step = std::min(step, g.after);
      }
      if (step == kNever) break;
      pass(step);
    }
    for (const double end : run_.end) {
      if (end < 0) throw std::logic_error("the naive run is stuck");
      run_.makespan = std::max(run_.makespan, end);
    }
    return run_;
  }

 private:
  void add_exchange(std::uint32_t number) {
    const ExchangeCost& cost = w_.exchanges[number];
    const Exchange& e = plan_.exchanges[number];
    Gathering g;
    for (std::uint32_t m = 0; m < e.members; ++m) {
      const std::uint32_t worker = plan_.tasks[e.first.value + m].worker_index;
      const double slow = c_.slow_worker.empty() ? 1 : c_.slow_worker[worker];
      const auto taking = [&](std::int64_t ps) {
        return std::floor(static_cast<double>(ps) * slow + 0.5);
      };
      g.before = std::max(g.before, taking(cost.packing[m]));
      g.after = std::max(g.after, taking(cost.unpacking[m]));
    }
    g.before += static_cast<double>(cost.startup);
    gatherings_.push_back(g);
    for (const ExchangeFlow& f : cost.flows) {
      Message m;
      m.send = m.receive = number;
      m.of_exchange = true;
      m.devices[0] = f.from;
      m.devices[1] = f.to;
      m.route = f.route;
      m.bytes = f.bytes * cost.stretch;
      m.copied = f.copied;
      messages_.push_back(m);
    }
  }

  // Exchanges that can go on at this instant.
  bool settle_exchanges() {
    bool any = false;
    for (std::uint32_t number = 0; number < gatherings_.size(); ++number) {
      Gathering& g = gatherings_[number];
      const Exchange& e = plan_.exchanges[number];
      const auto was = g.state;
      if (g.state == Gathering::Waiting) {
        bool all = true;
        for (std::uint32_t id = e.first.value; id < e.end(); ++id) all = all && run_.start[id] >= 0;
        if (all) g.state = Gathering::Before;
      } else if (g.state == Gathering::Before && g.before <= 0) {
        g.state = Gathering::Moving;
      } else if (g.state == Gathering::Moving) {
        const bool arrived = std::all_of(messages_.begin(), messages_.end(), [&](const Message& m) {
          return !m.of_exchange || m.send != number || m.state == Message::Done;
        });
        if (arrived) g.state = Gathering::After;
      } else if (g.state == Gathering::After && g.after <= 0) {
        g.state = Gathering::Done;
      }
      any = any || g.state != was;
    }
    return any;
  }

  // Has this task's message made this transfer?
  bool is_done(std::uint32_t id, unsigned transfer) const {
    if (is_exchange(plan_.tasks[id].kind))
      return gatherings_[plan_.tasks[id].exchange.value].state == Gathering::Done;
    const Message& m = messages_[message_of_[id]];
    return m.made > transfer || m.made == m.transfers;
  }
  void arrived(Message& m) {
    if (++m.made == m.transfers) {
      m.state = Message::Done;
      return;
    }
    m.state = Message::Waiting;
    m.startup = m.each_startup;
    m.bytes = m.each_bytes;
  }

  bool running(std::uint32_t id) const { return left_[id] >= 0 && run_.end[id] < 0; }

  // When the host issues a task: so long after the wait before it, which ends when the host has
  // issued all tasks before that wait, and they have ended; if it awaits kernels, transfers that it
  // has posted since the wait before that one may go on. Never, while that is not known.
  double issued_at(std::uint32_t id) const {
    double since = 0;
    const std::uint32_t waits = w_.waits_before.empty() ? 0 : w_.waits_before[id];
    for (std::uint32_t before = 0; before < waits; ++before) {
      double until = since;
      for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) {
        if (plan_.tasks[t].worker_index != plan_.tasks[id].worker_index) continue;
        if (w_.waits_before[t] == before)
          until = std::max(until, since + static_cast<double>(w_.issued[t]));
        const bool goes_on = w_.awaits_kernels && communicates(plan_.tasks[t].kind);
        if (w_.waits_before[t] + (goes_on ? 1 : 0) != before) continue;
        if (run_.end[t] < 0) return kNever;
        until = std::max(until, run_.end[t]);
      }
      since = until;
    }
    return since + static_cast<double>(w_.issued[id]);
  }

  bool ready(std::uint32_t id) const {
    if (!w_.issued.empty() && issued_at(id) > now_) return false;
    for (const TensorId input : plan_.tasks[id].inputs)
      if (input.valid() && plan_.producer(input).valid() &&
          run_.end[plan_.producer(input).value] < 0)
        return false;
    for (const ControlEdge& e : plan_.controls) {
      if (e.after.value != id || run_.end[e.before.value] >= 0) continue;
      const bool kernel_before_transfer =
          is_transfer(plan_.tasks[id].kind) && !is_transfer(plan_.tasks[e.before.value].kind);
      if (!(w_.free_transfers && kernel_before_transfer)) return false;
    }
    return true;
  }

  Group* head(std::size_t lane) {
    for (Group& g : units_[lane])
      if (!g.done) return &g;
    return nullptr;
  }

  bool settle() {
    bool any = settle_exchanges();
    for (Message& m : messages_)
      if (m.state == Message::Waiting && may_begin(m)) {
        m.state = Message::Starting;
        any = true;
      }
    for (Message& m : messages_) {
      if (m.state == Message::Starting && m.startup <= 0) {
        m.state = Message::Flowing;
        any = true;
      }
      if (m.state == Message::Flowing &&
          (m.bytes <= 0 || (m.route.count == 0 && m.copied == kNever))) {
        arrived(m);
        any = true;
      }
    }
    for (std::size_t lane = 0; lane < units_.size(); ++lane) {
      Group* g = head(lane);
      if (g == nullptr || g->posted < 0 || !communicates(plan_.tasks[g->tasks[0]].kind)) continue;
      if (!std::all_of(g->tasks.begin(), g->tasks.end(),
                       [&](std::uint32_t id) { return is_done(id, g->transfer); }))
        continue;
      any = true;
      if (std::any_of(g->tasks.begin(), g->tasks.end(), [&](std::uint32_t id) {
            return !is_exchange(plan_.tasks[id].kind) &&
                   messages_[message_of_[id]].transfers > g->transfer + 1;
          })) {
        ++g->transfer;
        g->posted = -1;
        continue;
      }
      g->done = true;
      for (const std::uint32_t id : g->tasks) run_.end[id] = now_;
    }
    if (any) return true;  // what ends at an instant, ends before anything starts
    for (const bool first : {true, false}) {  // messages before kernels, or the other way round
      const bool transfers = first != (w_.waits_for_kernel && !w_.posts_first);
      for (std::size_t lane = 0; lane < units_.size(); ++lane) {
        Group* g = head(lane);
        if (g == nullptr || g->posted >= 0) continue;
        if (communicates(plan_.tasks[g->tasks[0]].kind) != transfers) continue;
        if (!std::all_of(g->tasks.begin(), g->tasks.end(), [&](auto id) { return ready(id); }))
          continue;
        const auto worker = static_cast<std::uint32_t>(lane / plan_.lane_count());
        if (transfers && w_.waits_for_kernel && blocked_by_kernel(worker)) continue;
        if (transfers && has_one_stream(*g) && blocked_by_stream(lane, *g)) continue;
        g->posted = now_;
        any = true;
        for (const std::uint32_t id : g->tasks)
          if (g->transfer == 0) run_.start[id] = ready_[id] = now_;
        if (!transfers) {
          left_[g->tasks[0]] = duration(g->tasks[0]);
          if (left_[g->tasks[0]] == 0) end_compute(g->tasks[0]);
        }
      }
      if (any) return true;
    }
    return give_turn();
  }

  std::uint32_t device(std::uint32_t id) const {
    return w_.network.device(plan_.tasks[id].worker());
  }
  // Kernels that have a turn, on the device of a task.
  unsigned with_turns(std::uint32_t id) const {
    unsigned count = 0;
    for (std::uint32_t other = 0; other < left_.size(); ++other)
      count += running(other) && has_turn_[other] && device(other) == device(id);
    return count;
  }
  // Pairs that the worker of a task still has to attend.
  std::int64_t left_to_attend(std::uint32_t id) const {
    std::int64_t pairs = 0;
    for (std::uint32_t other = id; other < left_.size(); ++other)
      if (plan_.tasks[other].worker_index == plan_.tasks[id].worker_index)
        pairs += is_attend(plan_.tasks[other].kind)
                     ? plan_.works[plan_.tasks[other].work.value].pairs.value
                     : 0;
    return pairs;
  }
  // To the kernel of the worker with most left to do; among equals, that has waited for longest.
  bool give_turn() {
    std::uint32_t next = ~0u;
    const auto key = [&](std::uint32_t id) {
      return std::tuple(-left_to_attend(id), ready_[id], plan_.tasks[id].worker_index);
    };
    for (std::uint32_t id = 0; id < left_.size(); ++id)
      if (running(id) && !has_turn_[id] && (!w_.turns || with_turns(id) < w_.concurrency) &&
          (next == ~0u || key(id) < key(next)))
        next = id;
    if (next == ~0u) return false;
    run_.start[next] = now_;
    return has_turn_[next] = true;
  }

  bool blocked_by_kernel(std::uint32_t worker) const {
    for (std::uint32_t id = 0; id < left_.size(); ++id)
      if (plan_.tasks[id].worker_index == worker && running(id) && (has_turn_[id] || !w_.turns) &&
          left_[id] > longer_[id] + tail_of(id) + 1e-3)
        return !(now_ == 0 || w_.posts_first ||
                 (w_.backward_prepares && plan_.tasks[id].kind == TaskKind::AttendBackward)) ||
               run_.start[id] < now_;
    return false;
  }

  // Is a group of an earlier step on its way, or one of this step on a lane before this one?
  bool has_one_stream(const Group& g) const {
    const Task& first = plan_.tasks[g.tasks[0]];
    return w_.one_stream && plan_.repacks.empty() && !is_exchange(first.kind) &&
           first.lane <= Lane::Return;
  }
  bool blocked_by_stream(std::size_t lane, const Group& group) const {
    const std::size_t lanes = plan_.lane_count(), first = lane / lanes * lanes;
    for (std::size_t other = first; other < first + lanes; ++other)
      for (const Group& g : units_[other]) {
        if (!communicates(plan_.tasks[g.tasks[0]].kind) || !has_one_stream(g) || g.done) continue;
        const auto key = [&](std::size_t at, const Group& of) {
          return std::pair(plan_.tasks[of.tasks[0]].step, at);
        };
        if (key(other, g) < key(lane, group)) return true;
      }
    return false;
  }

  double tail_of(std::uint32_t id) const {
    const Task& t = plan_.tasks[id];
    const std::size_t at = static_cast<std::size_t>(t.kind) * plan_.works.size() + t.work.value;
    if (w_.tail.empty() || w_.tail[at] == 0) return 0;
    return static_cast<double>(w_.tail[at]) * duration(id) / static_cast<double>(w_.compute[at]);
  }

  bool may_begin(const Message& m) const {
    if (m.of_exchange) return gatherings_[m.send].state == Gathering::Moving;
    return is_posted(m.send, m.made) && is_posted(m.receive, m.made);
  }
  bool is_posted(std::uint32_t id, unsigned transfer) const {
    const Task& t = plan_.tasks[id];
    for (const Group& g : units_[std::size_t{t.worker_index} * plan_.lane_count() +
                                 static_cast<std::size_t>(t.lane)])
      if (std::ranges::find(g.tasks, id) != g.tasks.end())
        return g.posted >= 0 && g.transfer == transfer;
    return false;
  }

  double duration(std::uint32_t id) const {
    const Task& t = plan_.tasks[id];
    double ps = static_cast<double>(
        w_.amounts.empty()
            ? w_.compute[static_cast<std::size_t>(t.kind) * plan_.works.size() + t.work.value]
            : w_.amounts[id]);
    if (!c_.slow_worker.empty()) ps = std::floor(ps * c_.slow_worker[t.worker_index] + 0.5);
    return ps;
  }

  void end_compute(std::uint32_t id) {
    left_[id] = 0;
    const Task& t = plan_.tasks[id];
    Group* const group =
        head(std::size_t{t.worker_index} * plan_.lane_count() + static_cast<std::size_t>(t.lane));
    group->done = true;
    for (const std::uint32_t member : group->tasks) {  // of a repack, or this task alone
      if (member != id) run_.start[member] = now_;
      run_.end[member] = now_;
    }
  }

  void set_speeds() {
    speed_.assign(left_.size(), 1);
    for (std::uint32_t id = 0; id < left_.size(); ++id) {
      if (!running(id)) continue;
      const Task& t = plan_.tasks[id];
      if (!has_turn_[id]) {
        speed_[id] = 0;
        continue;
      }
      unsigned posted = 0;
      for (std::uint32_t lane = 0; lane < plan_.lane_count(); ++lane) {
        const Group* g = head(std::size_t{t.worker_index} * plan_.lane_count() + lane);
        posted += g != nullptr && g->posted >= 0 && communicates(plan_.tasks[g->tasks[0]].kind);
      }
      if (!w_.late[0].empty()) see_late_blocks(id, posted);
      if (posted > 0 && !w_.slowed[0].empty())
        speed_[id] /= w_.slowed[posted > 1][static_cast<std::size_t>(t.kind) * plan_.works.size() +
                                            t.work.value];
      const unsigned wanted = wanted_of(device(id));
      speed_[id] *= share_of_core(device(id));
      if (wanted > 1 && w_.full_slowdown > 1)  // by as much more as there are more
        speed_[id] /= 1 + (w_.full_slowdown - 1) / (w_.concurrency - 1.0) *
                              (std::min(wanted, w_.concurrency) - 1);
    }
    share_links();
  }

  // Transfers that hold SMs as a kernel starts keep some of its blocks from starting.
  void see_late_blocks(std::uint32_t id, unsigned posted) {
    const Task& t = plan_.tasks[id];
    const std::size_t at = static_cast<std::size_t>(t.kind) * plan_.works.size() + t.work.value;
    if (run_.start[id] == now_ && longer_[id] == 0 && posted > 0 && w_.late[0][at] > 0)
      late_[id] = left_[id] <= tail_of(id) + 1e-3
                      ? 0  // an SM is free at once
                      : static_cast<double>(w_.late[posted > 1][at]) * duration(id) /
                            static_cast<double>(w_.compute[at]);
    else if (posted == 0)
      start_late_blocks(id);
  }
  void start_late_blocks(std::uint32_t id) {
    longer_[id] += std::max(0.0, late_[id] - left_[id]);
    left_[id] = std::max(left_[id], late_[id]);
    late_[id] = 0;
  }

  // Kernels and, where the cores copy, messages.
  unsigned wanted_of(std::uint32_t here) const {
    unsigned wanted = 0;
    for (std::uint32_t id = 0; id < left_.size(); ++id)
      wanted += running(id) && has_turn_[id] && device(id) == here;
    for (const Message& m : messages_)
      if (m.state == Message::Flowing && (m.devices[0] == here || m.devices[1] == here))
        wanted += w_.copy_cores;
    return wanted;
  }
  // What each of those gets that want a device's cores.
  double share_of_core(std::uint32_t here) const {
    const unsigned wanted = wanted_of(here);
    return wanted > w_.concurrency ? static_cast<double>(w_.concurrency) / wanted : 1;
  }

  // Max-min by raising all rates together until a link is full, or a message as fast as its copying
  // cores, over and over.
  void share_links() {
    std::vector<Message*> rising;
    std::map<const Message*, double> most;
    for (Message& m : messages_) {
      m.rate = 0;
      if (m.state != Message::Flowing) continue;
      rising.push_back(&m);
      most[&m] = m.copied * std::min(share_of_core(m.devices[0]), share_of_core(m.devices[1]));
    }
    std::vector<double> left(w_.network.links());
    for (std::uint32_t l = 0; l < left.size(); ++l) left[l] = w_.network.capacity({l});
    while (!rising.empty()) {
      std::vector<int> users(left.size());
      for (const Message* m : rising)
        for (const LinkId l : m->route.over()) ++users[l.value];
      double rise = kNever;
      for (std::size_t l = 0; l < left.size(); ++l)
        if (users[l] > 0) rise = std::min(rise, left[l] / users[l]);
      for (const Message* m : rising) rise = std::min(rise, most[m] - m->rate);
      for (Message* m : rising) {
        m->rate += rise;
        for (const LinkId l : m->route.over()) left[l.value] -= rise;
      }
      std::erase_if(rising, [&](const Message* m) {
        if (m->rate >= most[m] * (1 - 1e-12)) return true;
        const auto over = m->route.over();
        return std::any_of(over.begin(), over.end(), [&](LinkId l) {
          return left[l.value] <= 1e-12 * w_.network.capacity(l);
        });
      });
    }
  }

  void pass(double step) {
    now_ += step;
    for (std::uint32_t id = 0; id < left_.size(); ++id) {
      if (!running(id)) continue;
      left_[id] -= step * speed_[id];
      if (late_[id] > 0 && left_[id] <= tail_of(id) + 1e-3) start_late_blocks(id);
      if (left_[id] <= 1e-3) end_compute(id);
    }
    for (Message& m : messages_) {
      if (m.state == Message::Starting) {
        m.startup -= step;
        if (m.startup <= 1e-3) m.startup = 0;
      } else if (m.state == Message::Flowing) {
        m.bytes -= step * m.rate;
        if (m.bytes <= 1e-3 * m.rate) m.bytes = 0;
      }
    }
    for (Gathering& g : gatherings_) {
      if (g.state == Gathering::Before && (g.before -= step) <= 1e-3) g.before = 0;
      if (g.state == Gathering::After && (g.after -= step) <= 1e-3) g.after = 0;
    }
  }

  const Workload& w_;
  const Conditions& c_;
  const Plan& plan_;
  NaiveRun run_;
  double now_ = 0;
  std::vector<std::vector<Group>> units_;  // by lane
  std::vector<Message> messages_;
  std::vector<Gathering> gatherings_;    // by exchange
  std::vector<std::size_t> message_of_;  // by task
  std::vector<double> left_, speed_;     // of computing tasks
  std::vector<double> ready_;            // likewise: when it began to wait for its turn
  std::vector<bool> has_turn_;           // likewise
  std::vector<double> late_,
      longer_;  // of computing tasks: blocks that have not started; the delay
};

}  // namespace

NaiveRun naive_simulation(const Workload& w, const Conditions& c) { return Naive(w, c).run(); }

}  // namespace ringsched
