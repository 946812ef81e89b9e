// What the exporters share: the lanes of a plan and what each task has to wait for.
#pragma once

#include <algorithm>
#include <vector>

#include "costs.hpp"
#include "engines.hpp"

namespace ringsched {

struct LaneUnits {
  std::vector<std::vector<std::uint32_t>> tasks;  // by lane, in order
};

inline LaneUnits lane_units(const Plan& plan) {
  LaneUnits out;
  const LaneNumbers lanes(plan);
  out.tasks.resize(lanes.all);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    out.tasks[lanes.of(plan.tasks[id])].push_back(id);
  return out;
}

// The tasks that a task waits for: producers and control edges, all on its own worker, except what
// a receive brings in. All members of a repack are done with the first, which waits for what any of
// them needs.
inline std::vector<std::uint32_t> dependencies(const Plan& plan, std::uint32_t id) {
  std::vector<std::uint32_t> out;
  std::uint32_t end = id + 1;
  if (const Task& task = plan.tasks[id]; is_repack(task.kind)) {
    if (id != plan.exchange(task).first.value) return {plan.exchange(task).first.value};
    end = plan.exchange(task).end();
  }
  for (std::uint32_t member = id; member < end; ++member)
    for (const TensorId input : plan.tasks[member].inputs)
      if (input.valid() && plan.producer(input).valid()) out.push_back(plan.producer(input).value);
  auto edge = std::lower_bound(
      plan.controls.begin(), plan.controls.end(), id,
      [](const ControlEdge& e, std::uint32_t task) { return e.after.value < task; });
  for (; edge != plan.controls.end() && edge->after.value < end; ++edge)
    out.push_back(edge->before.value);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// What a group waits for in addition to its members' own needs: all tasks of the previous unit in
// its lane. `at` is the place of a task among those of its lane.
inline std::vector<std::uint32_t> unit_before(const Plan& plan,
                                              const std::vector<std::uint32_t>& lane,
                                              std::size_t at) {
  while (at > 0 && plan.tasks[lane[at]].with_previous) --at;
  std::vector<std::uint32_t> out;
  while (at > 0) {
    out.push_back(lane[--at]);
    if (!plan.tasks[lane[at]].with_previous) break;
  }
  return out;
}

struct Wire {
  Route route;
  MessageCost message;
  std::int64_t alone_ps = 0;
};

inline Wire wire_of(const Workload& w, const Costs& costs, std::uint32_t send) {
  const Task& task = w.plan->tasks[send];
  Wire out;
  out.route = w.network.route(task.worker(), w.plan->tasks[task.peer.value].worker());
  out.message = costs.message(send, task, out.route.distance);
  out.alone_ps = out.message.startup_ps + flow_ps(out.message.bytes, w.network.rate(out.route));
  return out;
}

}  // namespace ringsched
