#include "backends/cpu/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

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
  // Messages and outputs have none.
  static constexpr std::pair<TaskKind, Kernel> kernels[] = {
      {TaskKind::Attend, &CpuOperations::attend},
      {TaskKind::AttendBackward, &CpuOperations::attend_backward},
      {TaskKind::Prepare, &CpuOperations::prepare},
      {TaskKind::Merge, &CpuOperations::merge},
      {TaskKind::Reduce, &CpuOperations::reduce},
      {TaskKind::Round, &CpuOperations::round},
  };
  const Task& task = plan_.tasks[id.value];
  for (const auto& [op, kernel] : kernels)
    if (op == task.kind) return (this->*kernel)(task, operands, scratch);
}

TensorForm CpuOperations::form(const Tensor& t) const {
  return tensor_form(plan_.program, t.value, {rows(t.rows)}, t.columns.count);
}

// Where the rows of `part` and this column of a matrix begin in a tensor that holds both.
std::int64_t CpuOperations::offset(const Tensor& t, std::size_t matrix, Region part,
                                   std::uint32_t column) const {
  const TensorForm all = form(t);
  return all.at(matrix, rows_before(plan_.layout, part, plan_.regions[t.rows.value])) +
         all.row_bytes[matrix] / t.columns.count * (column - t.columns.first);
}

// The kernels take whole groups of query heads, or a part of one.
std::vector<CpuOperations::Heads> CpuOperations::heads_of(ColumnRange columns) const {
  const std::uint32_t group = plan_.program[attention::kKeyValue].columns.group;
  std::vector<Heads> out;
  for (std::uint32_t h = columns.first; h < columns.end();) {
    const bool whole = h % group == 0 && columns.end() - h >= group;
    const std::uint32_t end =
        whole ? columns.end() / group * group : std::min(columns.end(), (h / group + 1) * group);
    out.push_back({h, end - h, h / group, whole ? (end - h) / group : 1});
    h = end;
  }
  return out;
}

void CpuOperations::attend(const Task& task, const Operands& operands, cpu::Scratch& scratch) {
  const Piece& piece = plan_.piece(task);
  const Tensor q = plan_.tensor(task.inputs[0]), kv = plan_.tensor(task.inputs[1]),
               out = {piece.value, {}, piece.rows, piece.columns, {}, false};
  const Region part = plan_.regions[piece.rows.value], held = plan_.regions[kv.rows.value];
  const Keys seen = keys(plan_.regions[task.keys.value], held);
  const std::vector<std::int64_t> at = positions(part);
  const std::vector<std::int32_t> query_rows = rows_from(0, at.size());
  const auto visible = visible_keys(plan_.problem.mask, at, seen.positions);
  for (const Heads& h : heads_of(piece.columns)) {
    cpu::Shape shape = shape_;
    shape.heads = h.count;
    shape.kv_heads = h.kv_count;
    shape.in_row = {q.columns.count, kv.columns.count, piece.columns.count, 0, 0};
    cpu::attend(shape, {query_rows, seen.rows, visible},
                operands.inputs[0] + offset(q, 0, part, h.first),
                operands.inputs[1] + offset(kv, 0, held, h.kv_first),
                operands.inputs[1] + offset(kv, 1, held, h.kv_first),
                as<float>(operands.outputs[0] + offset(out, 0, part, h.first)),
                as<float>(operands.outputs[0] + offset(out, 1, part, h.first)), scratch);
  }
}

void CpuOperations::attend_backward(const Task& task, const Operands& operands,
                                    cpu::Scratch& scratch) {
  const Piece& piece = plan_.piece(task);
  const Tensor q = plan_.tensor(task.inputs[0]), g = plan_.tensor(task.inputs[1]),
               kv = plan_.tensor(task.inputs[2]),
               out = {piece.value, {}, piece.rows, piece.columns, {}, false};
  const Region part = plan_.regions[piece.rows.value], held = plan_.regions[kv.rows.value],
               met = plan_.regions[task.keys.value];
  const Keys seen = keys(met, held);
  const std::vector<std::int64_t> at = positions(part);
  // Queries and their gradients may differ in extent: both start at their first row.
  const std::vector<std::int32_t> query_rows = rows_from(0, at.size());
  const auto visible = visible_keys(plan_.problem.mask, at, seen.positions);

  const Piece made = plan_.second_piece(task);
  const TensorForm of_keys = form({made.value, {}, made.rows, made.columns, {}, false});
  auto* key_gradient = as<float>(operands.outputs[1]);
  auto* value_gradient = as<float>(operands.outputs[1] + of_keys.at(1));
  const std::size_t floats = static_cast<std::size_t>(of_keys.rows * of_keys.row_bytes[0]) / 4;
  if (!seen.in_order) {
    spare_.resize(2 * floats);
    key_gradient = spare_.data();
    value_gradient = spare_.data() + floats;
  }
  const std::vector<Heads> heads = heads_of(piece.columns);
  for (const Heads& h : heads) {
    cpu::Shape shape = shape_;
    shape.heads = h.count;
    shape.kv_heads = h.kv_count;
    shape.in_row = {q.columns.count, kv.columns.count, piece.columns.count, g.columns.count,
                    made.columns.count};
    const std::size_t before = std::size_t{h.kv_first - made.columns.first} * shape_.head_dim;
    cpu::attend_backward(shape, {query_rows, seen.rows, visible},
                         operands.inputs[0] + offset(q, 0, part, h.first),
                         operands.inputs[2] + offset(kv, 0, held, h.kv_first),
                         operands.inputs[2] + offset(kv, 1, held, h.kv_first),
                         operands.inputs[1] + offset(g, 2, part, h.first),
                         as<float>(operands.inputs[1] + offset(g, 0, part, h.first)),
                         as<float>(operands.inputs[1] + offset(g, 1, part, h.first)),
                         as<float>(operands.outputs[0] + offset(out, 0, part, h.first)),
                         key_gradient + before, value_gradient + before, scratch);
  }
  if (seen.in_order) return;
  // Back to where the keys are in memory.
  const auto first = *std::min_element(seen.rows.begin(), seen.rows.end());
  for (std::size_t j = 0; j < seen.rows.size(); ++j)
    for (std::size_t m = 0; m < 2; ++m) {
      const auto row = static_cast<std::size_t>(of_keys.row_bytes[0]);
      std::memcpy(operands.outputs[1] + of_keys.at(m, seen.rows[j] - first),
                  spare_.data() + m * floats + j * row / 4, row);
    }
}

void CpuOperations::prepare(const Task& task, const Operands& operands, cpu::Scratch&) {
  const Piece& piece = plan_.piece(task);
  const Tensor o = plan_.tensor(task.inputs[0]), g = plan_.tensor(task.inputs[1]),
               out = {piece.value, {}, piece.rows, piece.columns, {}, true};
  const Region part = plan_.regions[piece.rows.value];
  const TensorForm made = form(out), of_o = form(o), of_g = form(g);
  const std::uint32_t first = piece.columns.first;
  const std::byte* result = operands.inputs[0] + offset(o, 0, part, first);
  const std::byte* lse = operands.inputs[0] + offset(o, 1, part, first);
  const std::byte* gradient = operands.inputs[1] + offset(g, 0, part, first);
  const auto prepare_rows = [&](std::int64_t row, std::int64_t count) {
    const auto copy = [&](std::size_t matrix, const std::byte* from) {
      std::memcpy(operands.outputs[0] + made.at(matrix, row), from,
                  static_cast<std::size_t>(count * made.row_bytes[matrix]));
    };
    copy(0, lse + row * of_o.row_bytes[1]);
    copy(2, gradient + row * of_g.row_bytes[0]);
    row_products(as<float>(result + row * of_o.row_bytes[0]), gradient + row * of_g.row_bytes[0],
                 plan_.problem.dtype, count * piece.columns.count, plan_.problem.head_dim,
                 as<float>(operands.outputs[0] + made.at(1, row)));
  };
  if (o.columns == piece.columns && g.columns == piece.columns) return prepare_rows(0, made.rows);
  for (std::int64_t row = 0; row < made.rows; ++row) prepare_rows(row, 1);
}

CpuOperations::Sum CpuOperations::sum_of(const Task& task) const {
  const Piece& piece = plan_.piece(task);
  const Tensor a = plan_.tensor(task.inputs[0]), b = plan_.tensor(task.inputs[1]);
  const auto before = [&](const Tensor& t) {
    return rows_before(plan_.layout, plan_.regions[t.rows.value], plan_.regions[piece.rows.value]);
  };
  return {form(a), form(b), form({piece.value, {}, piece.rows, piece.columns, {}, false}),
          before(a), before(b)};
}

void CpuOperations::merge(const Task& task, const Operands& operands, cpu::Scratch&) {
  const auto [a, b, out, first_a, first_b] = sum_of(task);
  const std::int64_t heads = plan_.piece(task).columns.count;
  if (operands.outputs[0] != operands.inputs[0]) {
    if (a.rows != out.rows) {  // rows that neither has see nothing yet
      std::memset(operands.outputs[0], 0, static_cast<std::size_t>(out.at(1)));
      std::fill_n(as<float>(operands.outputs[0] + out.at(1)), out.rows * heads,
                  -std::numeric_limits<float>::infinity());
    }
    for (std::size_t m = 0; m < 2; ++m)
      std::memcpy(operands.outputs[0] + out.at(m, first_a), operands.inputs[0] + a.at(m),
                  static_cast<std::size_t>(a.rows * a.row_bytes[m]));
  }
  merge_partials(as<float>(operands.outputs[0] + out.at(0, first_b)),
                 as<float>(operands.outputs[0] + out.at(1, first_b)), as<float>(operands.inputs[1]),
                 as<float>(operands.inputs[1] + b.at(1)), b.rows * heads, plan_.problem.head_dim);
}

void CpuOperations::reduce(const Task& task, const Operands& operands, cpu::Scratch&) {
  const auto [a, b, out, first_a, first_b] = sum_of(task);
  for (std::size_t m = 0; m < 2 && out.row_bytes[m] > 0; ++m) {
    if (operands.outputs[0] != operands.inputs[0]) {
      if (a.rows != out.rows)
        std::memset(operands.outputs[0] + out.at(m), 0,
                    static_cast<std::size_t>(out.rows * out.row_bytes[m]));
      std::memcpy(operands.outputs[0] + out.at(m, first_a), operands.inputs[0] + a.at(m),
                  static_cast<std::size_t>(a.rows * a.row_bytes[m]));
    }
    add_to(as<float>(operands.outputs[0] + out.at(m, first_b)),
           as<float>(operands.inputs[1] + b.at(m)), b.rows * b.row_bytes[m] / 4);
  }
}

// The result has the first matrices of the input: a log-sum-exp is left out.
void CpuOperations::round(const Task& task, const Operands& operands, cpu::Scratch&) {
  const Piece& piece = plan_.piece(task);
  const Tensor in = plan_.tensor(task.inputs[0]),
               out = {piece.value, {}, piece.rows, piece.columns, {}, true};
  const TensorForm from = form(in), to = form(out);
  const std::int64_t size = size_of(plan_.problem.dtype);
  for (std::size_t m = 0; m < 2 && to.row_bytes[m] > 0; ++m) {
    const std::byte* first =
        operands.inputs[0] + offset(in, m, plan_.regions[piece.rows.value], piece.columns.first);
    const auto round_rows = [&](std::int64_t row, std::int64_t count) {
      round_to(plan_.problem.dtype, as<float>(first + row * from.row_bytes[m]),
               count * to.row_bytes[m] / size, operands.outputs[0] + to.at(m, row));
    };
    if (in.columns == piece.columns) {
      round_rows(0, to.rows);
      continue;
    }
    for (std::int64_t row = 0; row < to.rows; ++row) round_rows(row, 1);
  }
}

void CpuOperations::require_finite(TaskId id, const Operands& operands) const {
  const Task& task = plan_.tasks[id.value];
  if (task.kind == TaskKind::Prepare) return;  // the next to use it is looked at
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
    const Tensor made = plan_.tensor(plan_.output(id, n));
    const TensorForm lies = form(made);
    const std::span<const Part> parts = plan_.program.type(made.value).parts;
    const bool softmax = plan_.program.type(made.value).algebra == Algebra::Softmax;
    for (std::size_t m = 0; m < parts.size(); ++m) {
      const std::byte* x = operands.outputs[n] + lies.at(m);
      const Dtype dtype = parts[m].element == Element::Fp32 ? Dtype::Fp32 : plan_.problem.dtype;
      const std::int64_t count = lies.rows * lies.row_bytes[m] / size_of(dtype);
      for (std::int64_t i = 0; i < count; ++i) {
        const float v = dtype == Dtype::Fp32 ? as<float>(x)[i] : number_at(x, dtype, i);
        if (std::isfinite(v)) continue;
        if (softmax && m == 1 && v == -std::numeric_limits<float>::infinity()) continue;
        throw RunFailed("it produced a number that is not finite");
      }
    }
  }
}

}  // namespace ringsched
