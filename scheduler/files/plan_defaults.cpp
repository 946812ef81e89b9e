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

bool is_given(const Plan& plan, ValueId value) {
  return std::ranges::find(plan.program.given, value) != plan.program.given.end();
}

bool has_outputs(const Plan& plan) {
  return std::ranges::any_of(plan.tasks, [](const Task& t) { return is_output(t.kind); });
}

Region given_rows(const Plan& plan, ValueId value, WorkerId w) {
  return value == attention::kQuery ? query_rows(plan.problem, plan.layout, w)
                                    : plan.layout.share(w);
}

std::vector<Given> default_given(const Plan& plan) {
  std::vector<Given> given;
  for (const ValueId value : plan.program.given)
    for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
      given.push_back(
          {value, {w}, given_rows(plan, value, {w}), plan.program[value].all_columns()});
  return given;
}

GivenTensors::GivenTensors(const Plan& plan)
    : workers_(plan.problem.workers), ids_(plan.program.size() * workers_) {
  for (std::uint32_t id = 0; id < plan.initial.size(); ++id) {
    const InitialTensor& t = plan.initial[id];
    ids_[plan.piece(t).value.value * workers_ + t.worker.value].push_back({id});
  }
}

std::string GivenTensors::name(const Plan& plan, TensorId id) const {
  const Tensor t = plan.tensor(id);
  std::string name;
  for (const auto& [value, letters] : kInitialNames)
    if (value == t.value) name = letters;
  name += std::to_string(t.worker.value);
  const auto same = of(t.value, t.worker);
  if (id == same[0]) return name;
  return name + "." + std::to_string(std::ranges::lower_bound(same, id) - same.begin());
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
    case Said:
      break;
  }
  return {};
}

Region default_keys(const Plan& plan, const Task& task) {
  return region_of(plan, task.inputs[operation(task.kind).inner]);
}

ValueId default_value(const Plan& plan, const Task& task) {
  if (task.kind == TaskKind::Receive) return plan.value(plan.tasks[task.peer.value]);
  if (task.kind == TaskKind::Round) return plan.program.rounded(plan.tensor(task.inputs[0]).value);
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
  if (!communicates(task.kind)) return Lane::Compute;
  const ValueId value = plan.program.unrounded(plan.value(task));
  return plan.program[value].is_sum ? Lane::Return : Lane::Fetch;
}

std::vector<std::uint8_t> default_completes(const Plan& plan) {
  std::vector<std::uint8_t> completes(plan.tasks.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const bool got = !is_repack(task.kind) || plan.regions[plan.rows(task).value].count > 0;
    const bool is_part = plan.program[plan.value(task)].is_sum && !is_exchange(task.kind) && got;
    if (outputs_of(task.kind) > 0 && !is_part) completes[id] = 1;
    if (task.kind != TaskKind::Output || !task.inputs[0].valid()) continue;
    if (const TaskId maker = plan.producer(task.inputs[0]); maker.valid())
      completes[maker.value] =
          (completes[maker.value] | (task.inputs[0] == plan.output(maker) ? 1u : 2u)) & 3u;
  }
  return completes;
}

}  // namespace ringsched::plan_file
