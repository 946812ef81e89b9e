// Walks back from the last task to the first along what fixed each start.
#include <algorithm>

#include "critical_path.hpp"
#include "engines.hpp"

namespace ringsched {

namespace {

class Walk {
 public:
  Walk(const Workload& w, const Simulation& s, const Costs& costs)
      : workload_(w), plan_(*w.plan), run_(s), costs_(costs) {}

  void go(PathShare& share, std::vector<PathStep>& steps) {
    if (run_.end.empty()) return;
    std::uint32_t at = 0;
    for (std::uint32_t id = 0; id < run_.end.size(); ++id)
      if (run_.end[id] > run_.end[at]) at = id;
    std::int64_t until = run_.end[at];
    for (;;) {
      // The run passes through a task at most once, and time only goes back.
      const Task& task = plan_.tasks[at];
      std::uint32_t decided = at;  // whose start is to be explained
      std::int64_t begin = run_.start[at];
      if (is_transfer(task.kind)) {
        at = longest_of_group(at);
        const std::uint32_t peer = plan_.tasks[at].peer.value;
        decided = first_of_group(run_.start[peer] > run_.start[at] ? peer : at);
        begin = run_.start[decided];
        add_transfer(share, at, until - begin);
      } else if (is_exchange(task.kind)) {
        at = decided = last_posted(task);
        begin = run_.start[decided];
        add_exchange(share, task.exchange.value, until - begin);
      } else {
        if (is_repack(task.kind)) {  // the first member has all the time
          at = decided = plan_.exchange(task).first.value;
          begin = run_.start[at];
        }
        add_compute(share, at, until - begin);
      }
      const Cause cause = run_.cause[decided];
      steps.push_back({{at}, cause.kind, {begin}, {until}});
      if (cause.kind == Cause::Host) {
        const bool waited = !workload_.waits_before.empty() && workload_.waits_before[decided] > 0;
        until = waited ? run_.end[cause.task] : 0;
        share.host.value += begin - until;
        if (!waited) break;
        at = cause.task;
        continue;
      }
      if (cause.kind == Cause::None || begin <= 0) {
        share.waiting.value += begin;
        break;
      }
      const std::uint32_t before = cause.task;
      until = std::min(begin, run_.end[before]);
      share.waiting.value += begin - until;
      at = before;
    }
    std::reverse(steps.begin(), steps.end());
  }

 private:
  bool same_lane(std::uint32_t a, std::uint32_t b) const {
    const Task &x = plan_.tasks[a], &y = plan_.tasks[b];
    return x.worker_index == y.worker_index && x.lane == y.lane;
  }
  std::uint32_t first_of_group(std::uint32_t id) const {
    std::uint32_t first = id;
    for (std::uint32_t i = id; plan_.tasks[first].with_previous && i-- > 0;)
      if (same_lane(i, id)) {
        if (!is_transfer(plan_.tasks[i].kind)) break;
        first = i;
      }
    return first;
  }
  // The second member of a group says which took longest; a group of one names itself.
  std::uint32_t longest_of_group(std::uint32_t id) const {
    if (run_.cause[id].kind == Cause::Member) return run_.cause[id].task;
    for (std::uint32_t i = id + 1; i < plan_.tasks.size(); ++i)
      if (same_lane(i, id))
        return plan_.tasks[i].with_previous && run_.cause[i].kind == Cause::Member
                   ? run_.cause[i].task
                   : id;
    return id;
  }

  std::uint32_t last_posted(const Task& member) const {
    const Exchange& e = plan_.exchange(member);
    std::uint32_t last = e.first.value;
    for (std::uint32_t id = last; id < e.end(); ++id)
      if (run_.start[id] > run_.start[last]) last = id;
    return last;
  }

  void add_compute(PathShare& share, std::uint32_t id, std::int64_t took) const {
    const Task& task = plan_.tasks[id];
    const std::int64_t alone = std::min(took, costs_.compute(id, task));
    (is_attend(task.kind) ? share.attending : share.overhead).value += alone;
    share.contention.value += took - alone;
  }

  void add_transfer(PathShare& share, std::uint32_t id, std::int64_t took) const {
    const std::uint32_t send = is_send(plan_.tasks[id].kind) ? id : plan_.tasks[id].peer.value;
    const Task& task = plan_.tasks[send];
    const Route route =
        workload_.network.route(task.worker(), plan_.tasks[task.peer.value].worker());
    const MessageCost m = costs_.message(send, task, route.distance);
    const std::int64_t startup = std::min(took, m.startup_ps);
    const std::int64_t wire =
        std::min(took - startup, flow_ps(m.bytes, workload_.network.rate(route)));
    const std::int64_t latency = std::min(startup, costs_.latency(task, route.distance));
    share.startup.value += latency;
    share.below_speed.value += startup - latency;
    share.wire.value += wire;
    share.contention.value += took - startup - wire;
  }

  void add_exchange(PathShare& share, std::uint32_t number, std::int64_t took) const {
    const ExchangeTimes times = costs_.exchange(number);
    const std::int64_t packs = std::min(took, times.packing + times.unpacking);
    const std::int64_t startup = std::min(took - packs, times.startup);
    const std::int64_t wire = std::min(took - packs - startup, times.wire);
    share.overhead.value += packs;
    share.startup.value += startup;
    share.wire.value += wire;
    share.contention.value += took - packs - startup - wire;
  }

  const Workload& workload_;
  const Plan& plan_;
  const Simulation& run_;
  const Costs& costs_;
};

}  // namespace

void critical_path(const Workload& w, const Simulation& s, const Costs& costs, PathShare& share,
                   std::vector<PathStep>& steps) {
  Walk(w, s, costs).go(share, steps);
}

}  // namespace ringsched
