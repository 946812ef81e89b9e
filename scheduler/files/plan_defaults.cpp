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

std::vector<Given> default_given(const Plan& plan) {
  std::vector<Given> given;
  for (const ValueId value : plan.program.given)
    for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
      given.push_back({value, {w}, plan.layout.share({w}), plan.program[value].all_columns()});
  return given;
}

GivenTensors::GivenTensors(const Plan& plan)
    : workers_(plan.problem.workers), ids_(plan.initial.size()) {
  first_.resize(plan.program.size() * workers_ + 1);
  const auto place = [&](const InitialTensor& t) {
    return plan.piece(t).value.value * workers_ + t.worker.value;
  };
  for (const InitialTensor& t : plan.initial) ++first_[place(t) + 1];
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::uint32_t id = 0; id < plan.initial.size(); ++id)
    ids_[next[place(plan.initial[id])]++] = {id};
}

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

ColumnRange default_heads(const Plan& plan, const Task& task, ValueId value) {
  if (task.kind == TaskKind::Receive) {
    if (task.peer.valid() && plan.value(plan.tasks[task.peer.value]) == value)
      return plan.piece(plan.tasks[task.peer.value]).columns;
  } else if (task.inputs[0].valid()) {
    return plan.tensor(task.inputs[0]).columns;
  }
  return plan.program[value].all_columns();
}

Lane default_lane(const Plan& plan, const Task& task) {
  if (!is_transfer(task.kind)) return Lane::Compute;
  return plan.program[plan.value(task)].is_sum ? Lane::Return : Lane::Fetch;
}

std::vector<std::uint8_t> default_completes(const Plan& plan) {
  std::vector<std::uint8_t> completes(plan.tasks.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (outputs_of(task.kind) > 0 && !plan.program[plan.value(task)].is_sum) completes[id] = 1;
    if (task.kind != TaskKind::Output || !task.inputs[0].valid()) continue;
    if (const TaskId maker = plan.producer(task.inputs[0]); maker.valid())
      completes[maker.value] =
          (completes[maker.value] | (task.inputs[0] == plan.output(maker) ? 1u : 2u)) & 3u;
  }
  return completes;
}

}  // namespace ringsched::plan_file
