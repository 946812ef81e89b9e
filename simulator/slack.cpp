// The latest end of each task with which the run would still end at the same time, computed from
// the end.
#include <algorithm>

#include "engines.hpp"
#include "ringsched/simulator/report.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kNone = ~0u;

// A unit is a computing task, a group of transfers (posted and complete together), or all members
// of an exchange; its first task stands for it.
class Slack {
 public:
  Slack(const Workload& w, const Simulation& run, const Conditions& c)
      : workload_(w),
        plan_(*w.plan),
        run_(run),
        costs_(w, c),
        latest_(plan_.tasks.size(), run.makespan.value),
        unit_(plan_.tasks.size()),
        before_(plan_.tasks.size(), kNone),
        next_member_(plan_.tasks.size(), kNone),
        controls_from_(plan_.tasks.size() + 1) {
    const LaneNumbers lanes(plan_);
    std::vector<std::uint32_t> last(lanes.all, kNone);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      std::uint32_t& previous = last[lanes.of(task)];
      if (is_exchange(task.kind)) {
        unit_[id] = plan_.exchange(task).first.value;
        if (previous != kNone) before_[id] = unit_[previous];
        if (unit_[id] == id)
          units_.push_back(id);
        else
          next_member_[id - 1] = id;
      } else if (task.with_previous && previous != kNone) {
        unit_[id] = unit_[previous];
        next_member_[previous] = id;
      } else {
        unit_[id] = id;
        if (previous != kNone) before_[id] = unit_[previous];
        units_.push_back(id);
      }
      previous = id;
    }
    for (const ControlEdge& e : plan_.controls) ++controls_from_[e.after.value + 1];
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) controls_from_[i + 1] += controls_from_[i];
    std::sort(units_.begin(), units_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return run.start[a] != run.start[b] ? run.start[a] > run.start[b] : a > b;
    });
  }

  TaskColumn<std::int64_t> find() {
    // Whatever waits for a unit starts after it, or at the same instant; then repeat.
    do {
      changed_ = false;
      for (const std::uint32_t u : units_) look_at(u);
    } while (changed_);
    TaskColumn<std::int64_t> out(plan_.tasks.size());
    for (std::uint32_t id = 0; id < out.size(); ++id)
      out[id] = is_transfer(plan_.tasks[id].kind)
                    ? latest_arrival(send_of(id)) - begin(send_of(id)) - took(send_of(id))
                    : latest_[id] - run_.end[id];
    return out;
  }

 private:
  std::uint32_t send_of(std::uint32_t id) const {
    return is_send(plan_.tasks[id].kind) ? id : plan_.tasks[id].peer.value;
  }
  std::uint32_t receive_of(std::uint32_t id) const {
    return is_send(plan_.tasks[id].kind) ? plan_.tasks[id].peer.value : id;
  }
  std::int64_t begin(std::uint32_t send) const {
    return std::max(run_.start[send], run_.start[receive_of(send)]);
  }
  // For a message in a group, only the end of the whole group is known, unless nothing was shared.
  std::int64_t took(std::uint32_t send) const {
    const std::int64_t most = std::min(run_.end[send], run_.end[receive_of(send)]) - begin(send);
    if (run_.by_events) return most;
    const Task& task = plan_.tasks[send];
    const Route route =
        workload_.network.route(task.worker(), plan_.tasks[task.peer.value].worker());
    const MessageCost m = costs_.message(send, task, route.distance);
    return std::min(most, m.startup_ps + flow_ps(m.bytes, workload_.network.rate(route)));
  }
  std::int64_t posted_by_all(std::uint32_t first) const {
    std::int64_t at = 0;
    for (std::uint32_t id = first; id != kNone; id = next_member_[id])
      at = std::max(at, run_.start[id]);
    return at;
  }
  // The groups at both ends wait for it.
  std::int64_t latest_arrival(std::uint32_t send) const {
    return std::min(latest_[unit_[send]], latest_[unit_[receive_of(send)]]);
  }

  void lower(std::int64_t& value, std::int64_t to) {
    if (to >= value) return;
    value = to;
    changed_ = true;
  }
  void must_end_by(std::uint32_t id, std::int64_t at) { lower(latest_[unit_[id]], at); }

  void look_at(std::uint32_t unit) {
    std::int64_t start = run_.makespan.value;
    if (is_exchange(plan_.tasks[unit].kind)) {
      start = std::min(start, latest_[unit] - (run_.end[unit] - posted_by_all(unit)));
    } else if (!is_transfer(plan_.tasks[unit].kind)) {
      start = std::min(start, latest_[unit] - (run_.end[unit] - run_.start[unit]));
    } else {
      for (std::uint32_t id = unit; id != kNone; id = next_member_[id]) {
        const std::uint32_t send = send_of(id);
        start = std::min(start, latest_arrival(send) - took(send));
      }
    }
    for (std::uint32_t id = unit; id != kNone; id = next_member_[id]) {
      if (const std::uint32_t before = before_[id]; before != kNone) lower(latest_[before], start);
      const Cause cause = run_.cause[id];
      if (cause.kind == Cause::Kernel)  // which may leave its SMs before it ends
        must_end_by(cause.task,
                    start + std::max<std::int64_t>(0, run_.end[cause.task] - run_.start[id]));
      for (const TensorId input : plan_.tasks[id].inputs)
        if (input.valid() && plan_.producer(input).valid())
          must_end_by(plan_.producer(input).value, start);
      for (std::size_t c = controls_from_[id]; c < controls_from_[id + 1]; ++c)
        if (workload_.binds(plan_.controls[c])) must_end_by(plan_.controls[c].before.value, start);
    }
  }

  const Workload& workload_;
  const Plan& plan_;
  const Simulation& run_;
  const Costs costs_;
  bool changed_ = false;
  TaskColumn<std::int64_t> latest_;                        // by unit
  TaskColumn<std::uint32_t> unit_, before_, next_member_;  // by task
  TaskColumn<std::uint32_t> units_;                        // the last to start first
  std::vector<std::size_t> controls_from_;
};

}  // namespace

TaskColumn<std::int64_t> slack(const Workload& w, const Simulation& run, const Conditions& c) {
  return Slack(w, run, c).find();
}

}  // namespace ringsched
