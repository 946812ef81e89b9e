#include "backends/cpu/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "combine.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "typed_memory.hpp"
#include "visible.hpp"

namespace ringsched {

namespace {

std::vector<std::int32_t> rows_from(std::int64_t first, std::size_t count) {
  std::vector<std::int32_t> out(count);
  std::iota(out.begin(), out.end(), static_cast<std::int32_t>(first));
  return out;
}

}  // namespace

cpu::Shape cpu_shape(const Problem& p) {
  cpu::Shape s;
  s.element = p.dtype == Dtype::Fp32   ? cpu::Element::Fp32
              : p.dtype == Dtype::Bf16 ? cpu::Element::Bf16
                                       : cpu::Element::Fp16;
  s.heads = p.heads;
  s.kv_heads = p.kv_heads;
  s.head_dim = p.head_dim;
  s.scale = static_cast<float>(score_scale(p));
  return s;
}

CpuOperations::CpuOperations(const Plan& plan) : plan_(plan), shape_(cpu_shape(plan.problem)) {}

std::int64_t CpuOperations::rows(RegionId r) const {
  return plan_.layout.rows(plan_.regions[r.value]).value;
}

std::vector<std::int64_t> CpuOperations::positions(Region part) const {
  std::vector<std::int64_t> out;
  for (const TokenRange& range : plan_.layout.ranges(part))
    for (std::int64_t i = 0; i < range.count; ++i) out.push_back(range.position(i));
  return out;
}

CpuOperations::Keys CpuOperations::keys(Region part, Region whole) const {
  Keys out;
  out.positions = positions(part);
  out.rows = rows_from(rows_before(plan_.layout, part, whole), out.positions.size());
  out.in_order = std::is_sorted(out.positions.begin(), out.positions.end());
  if (out.in_order) return out;
  const std::int32_t first = out.rows[0];
  std::sort(out.rows.begin(), out.rows.end(), [&](std::int32_t a, std::int32_t b) {
    return out.positions[static_cast<std::size_t>(a - first)] <
           out.positions[static_cast<std::size_t>(b - first)];
  });
  std::sort(out.positions.begin(), out.positions.end());
  return out;
}

void CpuOperations::perform(TaskId id, const Operands& operands, cpu::Scratch& scratch) {
  const Task& task = plan_.tasks[id.value];
  switch (task.kind) {
    case TaskKind::Attend:
      return attend(task, operands, scratch);
    case TaskKind::AttendBackward:
      return attend_backward(task, operands, scratch);
    case TaskKind::Prepare:
      return prepare(task, operands);
    case TaskKind::Merge:
      return merge(task, operands);
    case TaskKind::Reduce:
      return reduce(task, operands);
    case TaskKind::Send:
    case TaskKind::Receive:
    case TaskKind::Output:
      return;
  }
}

void CpuOperations::attend(const Task& task, const Operands& operands, cpu::Scratch& scratch) {
  const auto whole = [&](TensorId t) { return plan_.regions[plan_.tensor(t).rows.value]; };
  const Region query_part = plan_.regions[plan_.rows(task).value];
  const Region held = whole(task.inputs[1]);
  const Keys seen = keys(plan_.regions[task.keys.value], held);
  const std::vector<std::int64_t> at = positions(query_part);
  const std::vector<std::int32_t> query_rows =
      rows_from(rows_before(plan_.layout, query_part, whole(task.inputs[0])), at.size());
  const auto visible = visible_keys(plan_.problem.mask, at, seen.positions);

  const TensorForm kv = tensor_form(plan_.program, attention::kKeyValue, plan_.layout.rows(held));
  const TensorForm out = tensor_form(plan_.program, attention::kPartial, {rows(plan_.rows(task))});
  const std::byte* key_value = operands.inputs[1];
  cpu::attend(shape_, {query_rows, seen.rows, visible}, operands.inputs[0], key_value,
              key_value + kv.at(1), as<float>(operands.outputs[0]),
              as<float>(operands.outputs[0] + out.at(1)), scratch);
}

void CpuOperations::attend_backward(const Task& task, const Operands& operands,
                                    cpu::Scratch& scratch) {
  const auto whole = [&](TensorId t) { return plan_.regions[plan_.tensor(t).rows.value]; };
  const Region query_part = plan_.regions[plan_.rows(task).value];
  const Region held = whole(task.inputs[2]);
  const Problem& p = plan_.problem;
  const Keys seen = keys(plan_.regions[task.keys.value], held);
  const std::vector<std::int64_t> at = positions(query_part);
  // Queries and their gradients may be of different extents: both are given from their first row.
  const std::vector<std::int32_t> query_rows = rows_from(0, at.size());
  const auto visible = visible_keys(p.mask, at, seen.positions);

  const TensorForm q =
      tensor_form(plan_.program, attention::kQuery, plan_.layout.rows(whole(task.inputs[0])));
  const TensorForm g = tensor_form(plan_.program, attention::kPreparedGradient,
                                   plan_.layout.rows(whole(task.inputs[1])));
  const TensorForm kv = tensor_form(plan_.program, attention::kKeyValue, plan_.layout.rows(held));
  const TensorForm made =
      tensor_form(plan_.program, attention::kKeyValueGradient, {rows(task.keys)});
  const std::int64_t q0 = rows_before(plan_.layout, query_part, whole(task.inputs[0]));
  const std::int64_t g0 = rows_before(plan_.layout, query_part, whole(task.inputs[1]));
  auto* key_gradient = as<float>(operands.outputs[1]);
  auto* value_gradient = as<float>(operands.outputs[1] + made.at(1));
  const std::size_t floats = static_cast<std::size_t>(made.rows * made.row_bytes[0]) / 4;
  if (!seen.in_order) {
    spare_.resize(2 * floats);
    key_gradient = spare_.data();
    value_gradient = spare_.data() + floats;
  }
  cpu::attend_backward(
      shape_, {query_rows, seen.rows, visible}, operands.inputs[0] + q.at(0, q0),
      operands.inputs[2], operands.inputs[2] + kv.at(1), operands.inputs[1] + g.at(2, g0),
      as<float>(operands.inputs[1] + g.at(0, g0)), as<float>(operands.inputs[1] + g.at(1, g0)),
      as<float>(operands.outputs[0]), key_gradient, value_gradient, scratch);
  if (seen.in_order) return;
  // Back to where the keys stand in memory.
  const auto first = *std::min_element(seen.rows.begin(), seen.rows.end());
  for (std::size_t j = 0; j < seen.rows.size(); ++j)
    for (std::size_t m = 0; m < 2; ++m) {
      const auto row = static_cast<std::size_t>(made.row_bytes[0]);
      std::memcpy(operands.outputs[1] + made.at(m, seen.rows[j] - first),
                  spare_.data() + m * floats + j * row / 4, row);
    }
}

void CpuOperations::prepare(const Task& task, const Operands& operands) {
  const Problem& p = plan_.problem;
  const auto whole = [&](TensorId t) { return plan_.regions[plan_.tensor(t).rows.value]; };
  const Region part = plan_.regions[plan_.rows(task).value];
  const TensorForm o =
      tensor_form(plan_.program, attention::kPartial, plan_.layout.rows(whole(task.inputs[0])));
  const TensorForm g = tensor_form(plan_.program, attention::kOutputGradient,
                                   plan_.layout.rows(whole(task.inputs[1])));
  const TensorForm made =
      tensor_form(plan_.program, attention::kPreparedGradient, {rows(plan_.rows(task))});
  const std::int64_t o0 = rows_before(plan_.layout, part, whole(task.inputs[0]));
  const std::int64_t g0 = rows_before(plan_.layout, part, whole(task.inputs[1]));
  const std::byte* gradient = operands.inputs[1] + g.at(0, g0);
  const auto bytes = [&](std::size_t matrix) {
    return static_cast<std::size_t>(made.rows * made.row_bytes[matrix]);
  };
  std::memcpy(operands.outputs[0], operands.inputs[0] + o.at(1, o0), bytes(0));
  std::memcpy(operands.outputs[0] + made.at(2), gradient, bytes(2));
  row_products(as<float>(operands.inputs[0] + o.at(0, o0)), gradient, p.dtype, p.heads * made.rows,
               p.head_dim, as<float>(operands.outputs[0] + made.at(1)));
}

void CpuOperations::merge(const Task& task, const Operands& operands) {
  const Problem& p = plan_.problem;
  const Region all = plan_.regions[plan_.rows(task).value];
  const TensorForm out = tensor_form(plan_.program, attention::kPartial, {rows(plan_.rows(task))});
  const auto region = [&](std::size_t i) {
    return plan_.regions[plan_.tensor(task.inputs[i]).rows.value];
  };
  const auto form = [&](std::size_t i) {
    return tensor_form(plan_.program, attention::kPartial, plan_.layout.rows(region(i)));
  };
  const TensorForm a = form(0), b = form(1);
  if (operands.outputs[0] != operands.inputs[0]) {
    if (region(0) != all) {  // rows that neither has see nothing yet
      std::memset(operands.outputs[0], 0, static_cast<std::size_t>(out.at(1)));
      std::fill_n(as<float>(operands.outputs[0] + out.at(1)), out.rows * p.heads,
                  -std::numeric_limits<float>::infinity());
    }
    const std::int64_t first = rows_before(plan_.layout, region(0), all);
    for (std::size_t m = 0; m < 2; ++m)
      std::memcpy(operands.outputs[0] + out.at(m, first), operands.inputs[0] + a.at(m),
                  static_cast<std::size_t>(a.rows * a.row_bytes[m]));
  }
  const std::int64_t first = rows_before(plan_.layout, region(1), all);
  merge_partials(as<float>(operands.outputs[0] + out.at(0, first)),
                 as<float>(operands.outputs[0] + out.at(1, first)), as<float>(operands.inputs[1]),
                 as<float>(operands.inputs[1] + b.at(1)), b.rows * p.heads, p.head_dim);
}

void CpuOperations::reduce(const Task& task, const Operands& operands) {
  const Region all = plan_.regions[plan_.rows(task).value];
  const TensorForm out = tensor_form(plan_.program, plan_.value(task), {rows(plan_.rows(task))});
  const auto region = [&](std::size_t i) {
    return plan_.regions[plan_.tensor(task.inputs[i]).rows.value];
  };
  const auto form = [&](std::size_t i) {
    return tensor_form(plan_.program, plan_.value(task), plan_.layout.rows(region(i)));
  };
  const TensorForm a = form(0), b = form(1);
  for (std::size_t m = 0; m < 2 && out.row_bytes[m] > 0; ++m) {
    if (operands.outputs[0] != operands.inputs[0]) {
      if (region(0) != all)
        std::memset(operands.outputs[0] + out.at(m), 0,
                    static_cast<std::size_t>(out.rows * out.row_bytes[m]));
      std::memcpy(operands.outputs[0] + out.at(m, rows_before(plan_.layout, region(0), all)),
                  operands.inputs[0] + a.at(m), static_cast<std::size_t>(a.rows * a.row_bytes[m]));
    }
    add_to(as<float>(operands.outputs[0] + out.at(m, rows_before(plan_.layout, region(1), all))),
           as<float>(operands.inputs[1] + b.at(m)), b.rows * b.row_bytes[m] / 4);
  }
}

void CpuOperations::require_finite(TaskId id, const Operands& operands) const {
  const Task& task = plan_.tasks[id.value];
  if (task.kind == TaskKind::Prepare) return;  // the next to use it is looked at
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
    const Tensor made = plan_.tensor(plan_.output(id, n));
    const TensorForm form = tensor_form(plan_.program, made.value, {rows(made.rows)});
    const bool partial = made.value == attention::kPartial;
    for (std::size_t m = 0; m < 3; ++m) {
      const auto* x = as<float>(operands.outputs[n] + form.at(m));
      const std::int64_t count = form.rows * form.row_bytes[m] / 4;
      const bool good = std::all_of(x, x + count, [&](float v) {
        return std::isfinite(v) ||
               (partial && m == 1 && v == -std::numeric_limits<float>::infinity());
      });
      if (!good) throw RunFailed("it produced a number that is not finite");
    }
  }
}

}  // namespace ringsched
