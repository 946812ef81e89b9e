#include "backends/cuda/attend_tile.hpp"

namespace ringsched::cuda {

namespace {

// The library's requirements on addresses.
constexpr std::int64_t kAlignment = 16;

}  // namespace

Region held(const Plan& plan, const Task& task, std::size_t input) {
  return plan.regions[plan.tensor(task.inputs[input]).rows.value];
}

AttendTile attend_tile(const Plan& plan, const Task& task) {
  const Problem& p = plan.problem;
  const Layout& layout = plan.layout;
  const Region queries = plan.regions[plan.rows(task).value], keys = plan.regions[task.keys.value];
  const Region held_queries = held(plan, task, 0);
  const Region held_keys = held(plan, task, operation(task.kind).inner);
  AttendTile a{};
  a.backward = is_backward(task.kind);
  a.form = plan.works[task.work.value].form;
  a.rows = layout.rows(queries).value;
  a.keys = layout.rows(keys).value;
  a.query_row = rows_before(layout, queries, held_queries);
  a.key_row = rows_before(layout, keys, held_keys);
  a.query = tensor_form(plan.program, attention::kQuery, layout.rows(held_queries));
  a.key_value = tensor_form(plan.program, attention::kKeyValue, layout.rows(held_keys));
  a.library = library_tile(p, a.form, a.rows, a.keys, a.backward);
  if (!a.backward) return a;
  const Region held_gradients = held(plan, task, 1);
  a.gradient_row = rows_before(layout, queries, held_gradients);
  a.gradient = tensor_form(plan.program, attention::kPreparedGradient, layout.rows(held_gradients));
  return a;
}

bool AttendTile::copies_gradient() const {
  return gradient.at(2, gradient_row + library->dropped_rows) % kAlignment != 0;
}

}  // namespace ringsched::cuda
