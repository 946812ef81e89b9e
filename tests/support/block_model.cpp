#include "support/block_model.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <vector>

namespace ringsched {

namespace {

// Causal tiles cost `diagonal` of their area; others cost their area over that of a full block.
Sixteenths cost(const Plan& plan, const Task& task, Sixteenths diagonal) {
  if (!is_attend(task.kind)) return {};
  const Work& w = plan.works[task.work.value];
  const std::int64_t rows = plan.problem.tokens.value / plan.problem.workers;
  const bool full = w.form == TileForm::Full;
  if (!full && w.form != TileForm::Causal) throw std::logic_error("no such block in the model");
  const std::int64_t area = w.rows * w.keys * (full ? 16 : diagonal.value);
  if (area % (rows * rows) != 0) throw std::logic_error("the block model wants even chunks");
  return {area / (rows * rows)};
}

}  // namespace

BlockModel block_model(const Plan& plan, Sixteenths diagonal) {
  std::vector<std::int64_t> end(plan.tasks.size(), 0), free(plan.problem.workers, 0);
  BlockModel model;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    std::int64_t start = 0;
    for (const TensorId input : task.inputs)
      if (input.valid() && plan.producer(input).valid())
        start = std::max(start, end[plan.producer(input).value]);
    if (task.kind == TaskKind::Receive) start = end[task.peer.value];
    if (is_attend(task.kind)) start = std::max(start, free[task.worker_index]);
    const Sixteenths c = cost(plan, task, diagonal);
    end[id] = start + c.value;
    if (is_attend(task.kind)) free[task.worker_index] = end[id];
    model.work.value += c.value;
    model.makespan.value = std::max(model.makespan.value, end[id]);
  }
  return model;
}

void PrintTo(const Sixteenths& s, std::ostream* out) { *out << s.value << "/16"; }

}  // namespace ringsched
