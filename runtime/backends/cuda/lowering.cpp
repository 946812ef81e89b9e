#include "backends/cuda/lowering.hpp"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/narrow_outputs.hpp"
#include "ringsched/scheduler/words.hpp"
#include "typed_memory.hpp"

namespace ringsched::cuda {

Lowering::Lowering(const Plan& plan, const std::vector<WorkerId>& mine, const Refusal& refuses,
                   bool all_narrow)
    : plan_(plan), library_(plan.tasks.size(), false) {
  std::vector<bool> own(plan.problem.workers, false);
  for (const WorkerId w : mine) own[w.value] = true;
  const std::string never = refusal(plan.problem);
  std::map<Shape, std::string> asked;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (!is_attend(task.kind) || !own[task.worker_index]) continue;
    const AttendTile a = attend_tile(plan_, task);
    std::string why = never;
    if (why.empty() && !a.library) why = "cuDNN has no such mask";
    if (why.empty()) {
      auto [known, is_new] = asked.try_emplace(a.library->shape);
      if (is_new) known->second = refuses(a.library->shape);
      why = known->second;
    }
    library_[id] = why.empty();
    if (why.empty())
      ++by_library_;
    else
      ++by_own_[why];
  }
  narrow_ = narrow_outputs(plan, library_);
  if (all_narrow)
    for (std::size_t i = 0; i < narrow_.size(); ++i) narrow_[i] = library_[i / 2];
}

std::string Lowering::summary() const {
  std::string own;
  std::int64_t count = 0;
  for (const auto& [why, n] : by_own_) {
    count += n;
    own += (own.empty() ? "" : "; ") + why;
  }
  if (count == 0) return fmt::format("{} by cuDNN", counted(by_library_, "attend"));
  return fmt::format("{} by cuDNN, {} by the kernel for any tile ({})",
                     counted(by_library_, "attend"), count, own);
}

std::int64_t Lowering::rows(RegionId r) const {
  return plan_.layout.rows(plan_.regions[r.value]).value;
}

std::vector<DeviceCall> Lowering::calls(TaskId id, const Operands& operands,
                                        const Surroundings& around) const {
  // Messages and outputs have none.
  static constexpr std::pair<TaskKind, AddCalls> kernels[] = {
      {TaskKind::Attend, &Lowering::add_forward},
      {TaskKind::AttendBackward, &Lowering::add_backward},
      {TaskKind::Prepare, &Lowering::add<&Lowering::prepare>},
      {TaskKind::Merge, &Lowering::add<&Lowering::merge>},
      {TaskKind::Reduce, &Lowering::add<&Lowering::reduce>},
  };
  std::vector<DeviceCall> out;
  for (const auto& [op, add_calls] : kernels)
    if (op == plan_.tasks[id.value].kind) (this->*add_calls)(out, id, operands, around);
  if (around.not_finite) add_checks(out, id, operands, around.not_finite);
  return out;
}

// An input of a merge or sum.
Side Lowering::side(TaskId id, std::size_t input, const std::byte* data) const {
  const Task& task = plan_.tasks[id.value];
  const TensorId tensor = task.inputs[input];
  const Region region = held(plan_, task, input);
  const Tokens count = plan_.layout.rows(region);
  const TensorForm form = tensor_form(plan_.program, plan_.value(task), count);
  const TaskId maker = plan_.producer(tensor);
  const bool is_narrow =
      maker.valid() && narrow_[tensor.value - static_cast<std::uint32_t>(plan_.initial.size())];
  return {data,
          plan_.value(task) == attention::kPartial ? as<float>(data + form.at(1)) : nullptr,
          is_narrow ? plan_.problem.dtype : Dtype::Fp32,
          rows_before(plan_.layout, region, plan_.regions[plan_.rows(task).value]),
          count.value,
          form.at(1)};
}

Merge Lowering::merge(TaskId id, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const std::int64_t count = rows(plan_.rows(plan_.tasks[id.value]));
  const TensorForm out = tensor_form(plan_.program, attention::kPartial, {count});
  return {side(id, 0, operands.inputs[0]),
          side(id, 1, operands.inputs[1]),
          count,
          p.heads,
          p.head_dim,
          as<float>(operands.outputs[0]),
          as<float>(operands.outputs[0] + out.at(1))};
}

Add Lowering::reduce(TaskId id, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const std::int64_t count = rows(plan_.rows(task));
  const TensorForm out = tensor_form(plan_.program, plan_.value(task), {count});
  const bool of_keys = plan_.value(task) == attention::kKeyValueGradient;
  return {side(id, 0, operands.inputs[0]),
          side(id, 1, operands.inputs[1]),
          count,
          of_keys ? 2u : 1u,
          of_keys ? p.kv_heads : p.heads,
          p.head_dim,
          operands.outputs[0],
          out.at(1)};
}

Prepare Lowering::prepare(TaskId id, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const Region part = plan_.regions[plan_.rows(task).value];
  const Region results = held(plan_, task, 0), gradients = held(plan_, task, 1);
  const std::int64_t count = rows(plan_.rows(task));
  const TensorForm o = tensor_form(plan_.program, attention::kPartial, plan_.layout.rows(results));
  const TensorForm g =
      tensor_form(plan_.program, attention::kOutputGradient, plan_.layout.rows(gradients));
  const TensorForm made = tensor_form(plan_.program, attention::kPreparedGradient, {count});
  const std::int64_t row = rows_before(plan_.layout, part, results);
  return {count,
          p.heads,
          p.head_dim,
          p.dtype,
          as<float>(operands.inputs[0] + o.at(0, row)),
          as<float>(operands.inputs[0] + o.at(1, row)),
          operands.inputs[1] + g.at(0, rows_before(plan_.layout, part, gradients)),
          as<float>(operands.outputs[0] + made.at(0)),
          as<float>(operands.outputs[0] + made.at(1)),
          operands.outputs[0] + made.at(2)};
}

void Lowering::add_checks(std::vector<DeviceCall>& out, TaskId id, const Operands& operands,
                          std::uint32_t* flag) const {
  const Task& task = plan_.tasks[id.value];
  if (task.kind == TaskKind::Prepare || is_transfer(task.kind)) return;
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
    const Tensor made = plan_.tensor(plan_.output(id, n));
    const TensorForm form = tensor_form(plan_.program, made.value, {rows(made.rows)});
    for (std::size_t m = 0; m < 2 && form.row_bytes[m] > 0; ++m) {
      const bool is_lse = made.value == attention::kPartial && m == 1;
      out.emplace_back(CheckFinite{operands.outputs[n] + form.at(m),
                                   narrow(id, n) && !is_lse ? plan_.problem.dtype : Dtype::Fp32,
                                   form.rows * form.row_bytes[m] / 4, is_lse, id.value, flag});
    }
  }
}

}  // namespace ringsched::cuda
