#include "support/block_model.hpp"

#include <algorithm>
#include <vector>

namespace ringsched {

namespace {

double cost_of_tile(const Tile& t, double diagonal, double rows) {
  const double area = static_cast<double>(t.rows) * static_cast<double>(t.keys) / (rows * rows);
  if (t.form == TileForm::Full) return area;
  if (t.form == TileForm::Causal || t.form == TileForm::StrictlyCausal) return diagonal * area;
  return static_cast<double>(t.pairs.value) / (rows * rows);
}

// Where several workers' chunks meet in one attend that is neither full nor causal as a whole, each
// two chunks are a tile.
double cost(const Plan& plan, const Task& task, double diagonal) {
  if (!is_attend(task.kind)) return 0;
  const Work& w = plan.works[task.work.value];
  const double rows = static_cast<double>(plan.problem.tokens.value) / plan.problem.workers;
  const double heads = static_cast<double>(w.columns) / plan.wanted_heads();
  const Region q = plan.regions[plan.rows(task).value], k = plan.regions[task.keys.value];
  const auto of_one = [&](Region r) {
    return plan.layout.share(plan.layout.owner(r.first)).contains(r);
  };
  if (w.form != TileForm::Other || (of_one(q) && of_one(k)))
    return heads * cost_of_tile({w.rows, w.keys, w.pairs, w.form}, diagonal, rows);
  double sum = 0;
  for (std::uint32_t a = q.first.value; a < q.end(); ++a)
    for (std::uint32_t b = k.first.value; b < k.end(); ++b)
      sum += cost_of_tile(
          plan.problem.mask.tile(plan.layout.ranges({{a}, 1}), plan.layout.ranges({{b}, 1})),
          diagonal, rows);
  return heads * sum;
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
    if (is_exchange(task.kind))  // once all members have what they give
      for (std::uint32_t m = plan.exchange(task).first.value; m < plan.exchange(task).end(); ++m)
        if (const TensorId given = plan.tasks[m].inputs[0];
            given.valid() && plan.producer(given).valid())
          start = std::max(start, end[plan.producer(given).value]);
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
