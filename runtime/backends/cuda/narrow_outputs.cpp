#include "backends/cuda/narrow_outputs.hpp"

namespace ringsched::cuda {

std::vector<bool> narrow_outputs(const Plan& plan, const std::vector<bool>& by_library) {
  std::vector<bool> narrow(2 * plan.tasks.size(), false);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    for (std::uint32_t n = 0; by_library[id] && n < outputs_of(plan.tasks[id].kind); ++n)
      narrow[2 * id + n] = true;
  std::vector<bool> read(narrow.size(), false);
  for (const Task& task : plan.tasks)
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      const TensorId input = task.inputs[i];
      if (!input.valid() || !plan.producer(input).valid()) continue;
      const std::size_t at = input.value - plan.initial.size();
      read[at] = true;
      // The result of a merge may take the place of its first input, and is not narrow.
      if (!is_combine(task.kind) || i != 1) narrow[at] = false;
    }
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = narrow[i] && read[i];
  return narrow;
}

}  // namespace ringsched::cuda
