#include "plan_defaults.hpp"

#include <algorithm>

namespace ringsched::plan_file {

namespace {

Region region_of(const Plan& plan, TensorId tensor) {
  return plan.regions[plan.tensor(tensor).rows.value];
}

Region hull(Region a, Region b) {
  const std::uint32_t first = std::min(a.first.value, b.first.value);
  return {{first}, std::max(a.end(), b.end()) - first};
}

}  // namespace

Region default_rows(const Plan& plan, const Task& task) {
  using enum Operation::Rows;
  switch (operation(task.kind).rows) {
    case First:
      return region_of(plan, task.inputs[0]);
    case Second:  // all that dO has: rows that see no key have no result
      return region_of(plan, task.inputs[1]);
    case Both:
      return hull(region_of(plan, task.inputs[0]), region_of(plan, task.inputs[1]));
    case Peer:
      return plan.regions[plan.rows(plan.tasks[task.peer.value]).value];
  }
  return {};
}

Region default_keys(const Plan& plan, const Task& task) {
  return region_of(plan, task.inputs[operation(task.kind).inner]);
}

ValueId default_value(const Plan& plan, const Task& task) {
  if (task.kind == TaskKind::Receive) return plan.value(plan.tasks[task.peer.value]);
  if (operation(task.kind).does == Operation::Does::Compute)
    for (const Statement& s : plan.program.statements)
      if (s.op == task.kind) return s.outputs[0];
  return plan.tensor(task.inputs[0]).value;
}

Lane default_lane(const Plan& plan, const Task& task) {
  if (!is_transfer(task.kind)) return Lane::Compute;
  return plan.program[plan.value(task)].is_sum ? Lane::Return : Lane::Fetch;
}

}  // namespace ringsched::plan_file
