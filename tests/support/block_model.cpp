#include "support/block_model.hpp"

#include <algorithm>
#include <vector>

namespace ringsched {

namespace {

double cost(const Plan& plan, const Task& task, double diagonal) {
  if (!is_attend(task.kind)) return 0;
  const Work& w = plan.works[task.work.value];
  const double rows = static_cast<double>(plan.problem.tokens.value) / plan.problem.workers;
  const double area = static_cast<double>(w.rows) * static_cast<double>(w.keys) / (rows * rows);
  if (w.form == TileForm::Full) return area;
  if (w.form == TileForm::Causal || w.form == TileForm::StrictlyCausal) return diagonal * area;
  return static_cast<double>(w.pairs.value) / (rows * rows);
}

}  // namespace

BlockModel block_model(const Plan& plan, double diagonal) {
  std::vector<double> end(plan.tasks.size(), 0), free(plan.problem.workers, 0);
  BlockModel model;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    double start = 0;
    for (const TensorId input : task.inputs)
      if (input.valid() && plan.producer(input).valid())
        start = std::max(start, end[plan.producer(input).value]);
    if (task.kind == TaskKind::Receive) start = end[task.peer.value];
    if (is_attend(task.kind)) start = std::max(start, free[task.worker_index]);
    const double c = cost(plan, task, diagonal);
    end[id] = start + c;
    if (is_attend(task.kind)) free[task.worker_index] = end[id];
    model.work += c;
    model.makespan = std::max(model.makespan, end[id]);
  }
  return model;
}

}  // namespace ringsched
