#include "host.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "engines.hpp"
#include "ringsched/scheduler/operations.hpp"

namespace ringsched {

namespace {

bool is_part(const Plan& plan, RegionId region) {
  const Region r = plan.regions[region.value];
  return r.count < plan.layout.share(plan.layout.owner(r.first)).count;
}
bool is_strictly_causal(const Plan& plan, const Task& attend) {
  return plan.works[attend.work.value].form == TileForm::StrictlyCausal;
}

// The host's time for a task; the members of a group, or of a repack, are issued with the first.
double host_us(const Plan& plan, const SoftwareFigures& s, const Task& t) {
  const HostFigures& h = s.host;
  if (t.with_previous) return 0;
  switch (t.kind) {
    case TaskKind::Attend:
      return h.attend_us;
    case TaskKind::AttendBackward:
      if (is_part(plan, plan.rows(t)) || is_part(plan, t.keys) || is_strictly_causal(plan, t))
        return h.attend_backward_us + h.slice_us;
      return h.attend_backward_us;
    case TaskKind::Merge:
      return h.merge_us + (h.slice_us > 0 && is_slice(plan, t) ? h.slice_us : 0);
    case TaskKind::Send:
    case TaskKind::Receive:
      return h.post_us;
    case TaskKind::Exchange:
      return h.exchange_us;
    case TaskKind::Prepare:
      return s.prepare_bytes > 0 ? h.pass_us : 0;
    case TaskKind::Output:
      return s.output_bytes > 0 && !is_rounded(plan, t) ? h.pass_us : 0;
    case TaskKind::Reduce:
    case TaskKind::Round:
    case TaskKind::Repack:
      break;
  }
  return h.pass_us;
}

// The host of each worker issues its tasks in order, and waits for nothing unless the library
// synchronises. Like the libraries, it posts what the next step needs before it launches the
// kernels of this one, if the plan lets that move beside them.
class Hosts {
 public:
  Hosts(const Plan& plan, const SoftwareFigures& s)
      : plan_(plan), software_(s), hosts_(plan.problem.workers) {
    out_.issued.resize(plan.tasks.size());
    for (const Task& t : plan.tasks)
      if (t.kind == TaskKind::Prepare) backward_ = std::min(backward_, std::int64_t{t.step});
    if (s.host.synchronises == Synchronises::Never) return;
    out_.waits_before.assign(plan.tasks.size(), 0);
    out_.busy.resize(plan.problem.workers);
  }

  Issue issue_all() {
    const TaskColumn<std::uint32_t> follows = last_kernels();
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& t = plan_.tasks[id];
      Host& h = hosts_[t.worker_index];
      const bool computes = !communicates(t.kind);
      const bool may_pass = is_transfer(t.kind) && t.lane != Lane::Compute && !h.kernels.empty() &&
                            (follows[id] == kNone || follows[id] < h.kernels.front());
      if (computes ? t.step > h.step : !may_pass) launch(h);
      if (computes) {
        h.step = t.step;
        h.kernels.push_back(id);
      } else {
        issue(h, id);
      }
    }
    for (Host& h : hosts_) launch(h);
    if (!out_.waits_before.empty()) post_groups_with_their_last();
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Host {
    double at = 0;               // ps
    std::int64_t begun = -1;     // the last step for which it has done what it does for each
    std::int64_t launched = -1;  // it has launched a kernel of this step, and of none after
    std::int64_t step = -1;
    std::vector<std::uint32_t> kernels;  // of that step, not launched yet
    std::uint32_t waits = 0;             // for its device, so far
    bool exchanged = false;              // since then
  };

  // By the first task of a group: the last kernel that must end before any member starts.
  TaskColumn<std::uint32_t> last_kernels() const {
    const LaneNumbers lanes(plan_);
    std::vector<std::uint32_t> first(lanes.all);
    TaskColumn<std::uint32_t> out;
    out.assign(plan_.tasks.size(), kNone);
    std::size_t control = 0;
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& t = plan_.tasks[id];
      std::uint32_t& group = first[lanes.of(t)];
      if (!t.with_previous) group = id;
      const auto after = [&](TaskId before) {
        if (!before.valid() || communicates(plan_.tasks[before.value].kind)) return;
        if (out[group] == kNone || out[group] < before.value) out[group] = before.value;
      };
      for (const TensorId input : t.inputs)
        if (input.valid()) after(plan_.producer(input));
      for (; control < plan_.controls.size() && plan_.controls[control].after.value == id;
           ++control)
        after(plan_.controls[control].before);
    }
    return out;
  }

  // The host may have waited between the members of a group.
  void post_groups_with_their_last() {
    const LaneNumbers lanes(plan_);
    std::vector<std::uint32_t> last(lanes.all, kNone);  // of the group that the next task is in
    for (auto id = static_cast<std::uint32_t>(plan_.tasks.size()); id-- > 0;) {
      std::uint32_t& group = last[lanes.of(plan_.tasks[id])];
      if (group == kNone) group = id;
      if (out_.waits_before[id] < out_.waits_before[group]) {
        out_.waits_before[id] = out_.waits_before[group];
        out_.issued[id] = out_.issued[group];
      }
      if (!plan_.tasks[id].with_previous) group = kNone;
    }
  }

  void launch(Host& h) {
    for (const std::uint32_t id : h.kernels) issue(h, id);
    h.kernels.clear();
  }
  void issue(Host& h, std::uint32_t id) {
    const Task& t = plan_.tasks[id];
    const std::int64_t step = h.kernels.empty() ? t.step : h.step;
    const bool computes = !communicates(t.kind);
    const Synchronises when = software_.host.synchronises;
    // A step begins with its first task, or with its first kernel if the host waits before kernels.
    const bool at_kernels = when == Synchronises::Kernels;
    const std::int64_t before = at_kernels ? h.launched : h.begun;
    const bool begins = step > before && (computes || !at_kernels);
    if (!out_.waits_before.empty()) {
      const bool waits = when == Synchronises::Exchanges ? h.exchanged : begins && before >= 0;
      if (waits && !t.with_previous) {
        ++h.waits;
        h.at = software_.host.synchronise_us * 1e6;
        h.exchanged = false;
      }
      h.exchanged = h.exchanged || is_exchange(t.kind);
      out_.waits_before[id] = h.waits;
    }
    if (h.begun < backward_ && step >= backward_)
      h.at += software_.host.call_backward_us * 1e6;
    else if (h.begun < 0)
      h.at += software_.host.call_us * 1e6;
    if (begins) h.at += software_.host.step_us * 1e6;
    h.begun = std::max(h.begun, step);
    if (computes) h.launched = std::max(h.launched, step);
    h.at += host_us(plan_, software_, t) * 1e6;
    out_.issued[id] = rounded_ps(h.at);
    if (out_.busy.empty()) return;
    std::vector<std::int64_t>& busy = out_.busy[t.worker_index];
    busy.resize(h.waits + std::size_t{1});
    busy[h.waits] = out_.issued[id];
  }

  const Plan& plan_;
  const SoftwareFigures& software_;
  // The step in which the backward pass starts: each worker prepares for it then.
  std::int64_t backward_ = std::numeric_limits<std::int64_t>::max();
  std::vector<Host> hosts_;
  Issue out_;
};

// A graph of all tasks of a worker: they are issued with its launch.
Issue as_one_graph(const Plan& plan, const HostFigures& h) {
  std::vector<double> us(plan.problem.workers, h.graph_us);
  for (const Task& t : plan.tasks)
    if (!t.with_previous) us[t.worker_index] += h.graph_node_us;
  Issue out;
  for (const Task& t : plan.tasks) out.issued.push_back(rounded_ps(us[t.worker_index] * 1e6));
  return out;
}

}  // namespace

bool is_rounded(const Plan& plan, const Task& output) {
  const ValueId value = plan.value(output);
  return plan.program.unrounded(value) != value;
}

bool is_slice(const Plan& plan, const Task& merge) {
  const TaskId maker = plan.producer(merge.inputs[1]);
  if (!maker.valid()) return is_part(plan, plan.rows(merge));
  const Task& partial = plan.tasks[maker.value];
  return is_part(plan, plan.rows(partial)) ||
         (is_attend(partial.kind) && is_strictly_causal(plan, partial));
}

Issue issue_times(const Plan& plan, const SoftwareFigures& s) {
  return s.host.graph_us > 0 ? as_one_graph(plan, s.host) : Hosts(plan, s).issue_all();
}

// The last time before each wait, and after the last one.
Picoseconds issue_time(const Plan& plan, const SoftwareFigures& software) {
  const Issue all = issue_times(plan, software);
  std::vector<std::vector<std::int64_t>> last = all.busy;
  if (last.empty()) {
    last.assign(plan.problem.workers, {0});
    for (std::size_t id = 0; id < all.issued.size(); ++id) {
      std::int64_t& of_worker = last[plan.tasks[id].worker_index].front();
      of_worker = std::max(of_worker, all.issued[id]);
    }
  }
  std::int64_t longest = 0;
  for (const auto& of_worker : last)
    longest = std::max(longest, std::reduce(of_worker.begin(), of_worker.end()));
  return {longest};
}

}  // namespace ringsched
