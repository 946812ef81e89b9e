#include "plan_defaults.hpp"

#include <algorithm>

namespace ringsched::plan_file {

namespace {

Region region_of(const Plan& plan, TensorId tensor) {
  return plan.regions[plan.tensor(tensor).region.value];
}

Region hull(Region a, Region b) {
  const std::uint32_t first = std::min(a.first.value, b.first.value);
  return {{first}, std::max(a.end(), b.end()) - first};
}

}  // namespace

std::size_t initial_kinds(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return 2;
    case Pass::Both:
      return 3;
    case Pass::Backward:
      return 4;
  }
  return 0;
}

std::size_t inputs_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::AttendBackward:
      return 3;
    case TaskKind::Attend:
    case TaskKind::Prepare:
    case TaskKind::Merge:
    case TaskKind::Reduce:
      return 2;
    case TaskKind::Send:
    case TaskKind::Output:
      return 1;
    case TaskKind::Receive:
      return 0;
  }
  return 0;
}

Region default_rows(const Plan& plan, const Task& task) {
  switch (task.kind) {
    case TaskKind::Merge:
    case TaskKind::Reduce:
      return hull(region_of(plan, task.inputs[0]), region_of(plan, task.inputs[1]));
    case TaskKind::Prepare:  // all that dO has: rows that see no key have no result
      return region_of(plan, task.inputs[1]);
    case TaskKind::Receive:
      return plan.regions[plan.tasks[task.peer.value].region.value];
    default:
      return region_of(plan, task.inputs[0]);
  }
}

Region default_keys(const Plan& plan, const Task& task) {
  return region_of(plan, task.inputs[key_value_input(task.kind)]);
}

TensorKind default_tensor(const Plan& plan, const Task& task) {
  switch (task.kind) {
    case TaskKind::Attend:
    case TaskKind::Merge:
      return TensorKind::Partial;
    case TaskKind::AttendBackward:
      return TensorKind::QueryGradient;
    case TaskKind::Prepare:
      return TensorKind::PreparedGradient;
    case TaskKind::Receive:
      return plan.tasks[task.peer.value].makes;
    default:
      return plan.tensor(task.inputs[0]).kind;
  }
}

Lane default_lane(const Task& task) {
  if (!is_transfer(task.kind)) return Lane::Compute;
  switch (task.makes) {
    case TensorKind::Query:
    case TensorKind::KeyValue:
    case TensorKind::OutputGradient:
    case TensorKind::PreparedGradient:
      return Lane::Fetch;
    default:
      return Lane::Return;
  }
}

}  // namespace ringsched::plan_file
