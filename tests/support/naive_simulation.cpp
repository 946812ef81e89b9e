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
  std::uint32_t send = 0, receive = 0;
  double startup = 0, bytes = 0, rate = 0;
  double copied = kNever;  // the rate at which cores of its own copy it
  Route route;
  enum { Waiting, Starting, Flowing, Done } state = Waiting;
};

struct Group {
  std::vector<std::uint32_t> tasks;
  double posted = -1;
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
      m.startup =
          static_cast<double>(w.startup[static_cast<std::size_t>(m.route.distance)][t.work.value]);
      m.bytes = static_cast<double>(w.amounts.empty() ? plan_.works[t.work.value].bytes.value
                                                      : w.amounts[id]);
      if (w.copy_cores > 0) {  // they copy for as long as it takes alone, but for the latency
        const double latency =
            static_cast<double>(w.latency[static_cast<std::size_t>(m.route.distance)]);
        m.copied = m.bytes / (m.startup - latency + m.bytes / w.network.rate(m.route));
        m.startup = latency;
      }
      message_of_[id] = message_of_[m.receive] = messages_.size();
      messages_.push_back(m);
    }
    left_.assign(n, -1);
    has_turn_.assign(n, false);
    ready_.assign(n, -1);
  }

  NaiveRun run() {
    for (;;) {
      while (settle()) {
      }
      double step = kNever;
      set_speeds();
      for (std::uint32_t id = 0; id < left_.size(); ++id)
        if (running(id) && speed_[id] > 0) step = std::min(step, left_[id] / speed_[id]);
      for (const Message& m : messages_) {
        if (m.state == Message::Starting) step = std::min(step, m.startup);
        if (m.state == Message::Flowing && m.rate > 0) step = std::min(step, m.bytes / m.rate);
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
  bool running(std::uint32_t id) const { return left_[id] >= 0 && run_.end[id] < 0; }

  bool ready(std::uint32_t id) const {
    for (const TensorId input : plan_.tasks[id].inputs)
      if (input.valid() && plan_.producer(input).valid() &&
          run_.end[plan_.producer(input).value] < 0)
        return false;
    for (const ControlEdge& e : plan_.controls)
      if (e.after.value == id && run_.end[e.before.value] < 0) return false;
    return true;
  }

  Group* head(std::size_t lane) {
    for (Group& g : units_[lane])
      if (!g.done) return &g;
    return nullptr;
  }

  bool settle() {
    bool any = false;
    for (const bool transfers : {true, false}) {
      for (std::size_t lane = 0; lane < units_.size(); ++lane) {
        Group* g = head(lane);
        if (g == nullptr || g->posted >= 0) continue;
        if (is_transfer(plan_.tasks[g->tasks[0]].kind) != transfers) continue;
        if (!std::all_of(g->tasks.begin(), g->tasks.end(), [&](auto id) { return ready(id); }))
          continue;
        const auto worker = static_cast<std::uint32_t>(lane / plan_.lane_count());
        if (transfers && w_.waits_for_kernel && blocked_by_kernel(worker)) continue;
        g->posted = now_;
        any = true;
        for (const std::uint32_t id : g->tasks) run_.start[id] = ready_[id] = now_;
        if (!transfers) {
          left_[g->tasks[0]] = duration(g->tasks[0]);
          if (left_[g->tasks[0]] == 0) end_compute(g->tasks[0]);
        }
      }
      if (any) return true;  // messages before kernels
    }
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
        m.state = Message::Done;
        any = true;
      }
    }
    for (std::size_t lane = 0; lane < units_.size(); ++lane) {
      Group* g = head(lane);
      if (g == nullptr || g->posted < 0 || !is_transfer(plan_.tasks[g->tasks[0]].kind)) continue;
      const bool done = std::all_of(g->tasks.begin(), g->tasks.end(), [&](std::uint32_t id) {
        return messages_[message_of_[id]].state == Message::Done;
      });
      if (!done) continue;
      g->done = any = true;
      for (const std::uint32_t id : g->tasks) run_.end[id] = now_;
    }
    return any || give_turn();
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
      if (plan_.tasks[id].worker_index == worker && running(id) && has_turn_[id] &&
          run_.start[id] < now_)
        return true;
    return false;
  }

  bool may_begin(const Message& m) const {
    return run_.start[m.send] >= 0 && run_.start[m.receive] >= 0;
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
    run_.end[id] = now_;
    left_[id] = 0;
    const Task& t = plan_.tasks[id];
    head(std::size_t{t.worker_index} * plan_.lane_count() + static_cast<std::size_t>(t.lane))
        ->done = true;
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
        posted += g != nullptr && g->posted >= 0 && is_transfer(plan_.tasks[g->tasks[0]].kind);
      }
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

  // Kernels and, where the cores copy, messages.
  unsigned wanted_of(std::uint32_t here) const {
    unsigned wanted = 0;
    for (std::uint32_t id = 0; id < left_.size(); ++id)
      wanted += running(id) && has_turn_[id] && device(id) == here;
    for (const Message& m : messages_)
      if (m.state == Message::Flowing && (device(m.send) == here || device(m.receive) == here))
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
      most[&m] =
          m.copied * std::min(share_of_core(device(m.send)), share_of_core(device(m.receive)));
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
  }

  const Workload& w_;
  const Conditions& c_;
  const Plan& plan_;
  NaiveRun run_;
  double now_ = 0;
  std::vector<std::vector<Group>> units_;  // by lane
  std::vector<Message> messages_;
  std::vector<std::size_t> message_of_;  // by task
  std::vector<double> left_, speed_;     // of computing tasks
  std::vector<double> ready_;            // likewise: when it began to wait for its turn
  std::vector<bool> has_turn_;           // likewise
};

}  // namespace

NaiveRun naive_simulation(const Workload& w, const Conditions& c) { return Naive(w, c).run(); }

}  // namespace ringsched
