#include "rectangle.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/combine.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "typed_memory.hpp"

namespace ringsched {

namespace {

bool is_softmax(const Plan& plan, ValueId v) {
  return plan.program.type(v).algebra == Algebra::Softmax;
}

// Calls for_rows(offset in a, offset in b, rows) for all rows at once if they are contiguous in
// both.
template <class ForRows>
void for_runs(const Rectangle::Matrix& a, const Rectangle::Matrix& b, std::int64_t rows,
              ForRows for_rows) {
  if (a.is_run() && b.is_run()) return for_rows(0, 0, rows);
  for (std::int64_t row = 0; row < rows; ++row) for_rows(row * a.stride, row * b.stride, 1);
}

}  // namespace

Rectangle rectangle(const Plan& plan, std::byte* data, const Piece& held, Region rows,
                    ColumnRange columns) {
  if (held.columns.count == 0) return {};
  const Region whole = plan.regions[held.rows.value];
  const TensorForm form =
      tensor_form(plan.program, held.value, plan.layout.rows(whole), held.columns.count);
  const std::int64_t before = rows_before(plan.layout, rows, whole);
  Rectangle out;
  out.rows = plan.layout.rows(rows).value;
  for (std::size_t m = 0; m < out.matrices.size(); ++m) {
    const std::int64_t column_bytes = form.row_bytes[m] / held.columns.count;
    out.matrices[m] = {
        data + form.at(m, before) + column_bytes * (columns.first - held.columns.first),
        column_bytes * columns.count, form.row_bytes[m]};
  }
  return out;
}

Rectangle packed(const Plan& plan, std::byte* data, ValueId value, Region rows,
                 ColumnRange columns) {
  const TensorForm form = tensor_form(plan.program, value, plan.layout.rows(rows), columns.count);
  Rectangle out;
  out.rows = form.rows;
  for (std::size_t m = 0; m < out.matrices.size(); ++m)
    out.matrices[m] = {data + form.at(m), form.row_bytes[m], form.row_bytes[m]};
  return out;
}

void copy(const Rectangle& from, const Rectangle& to) {
  for (std::size_t m = 0; m < to.matrices.size(); ++m) {
    const Rectangle::Matrix &a = from.matrices[m], &b = to.matrices[m];
    if (b.row_bytes == 0) continue;
    for_runs(a, b, to.rows, [&](std::int64_t in_a, std::int64_t in_b, std::int64_t rows) {
      std::memcpy(b.first + in_b, a.first + in_a, static_cast<std::size_t>(rows * b.row_bytes));
    });
  }
}

void clear(const Plan& plan, ValueId value, const Rectangle& to) {
  for (std::size_t m = 0; m < to.matrices.size(); ++m) {
    const Rectangle::Matrix& matrix = to.matrices[m];
    const bool lse = is_softmax(plan, value) && m == 1;
    for_runs(matrix, matrix, to.rows, [&](std::int64_t at, std::int64_t, std::int64_t rows) {
      constexpr float kNothing = -std::numeric_limits<float>::infinity();
      std::fill_n(as<float>(matrix.first + at), rows * matrix.row_bytes / 4, lse ? kNothing : 0.0f);
    });
  }
}

void add(const Plan& plan, ValueId value, const Rectangle& from, const Rectangle& to) {
  if (is_softmax(plan, value)) {
    const Rectangle::Matrix &a = to.matrices[0], &b = from.matrices[0], &a_lse = to.matrices[1],
                            &b_lse = from.matrices[1];
    const std::int64_t columns = a_lse.row_bytes / 4;
    const auto merge = [&](std::int64_t row, std::int64_t rows) {
      merge_partials(
          as<float>(a.first + row * a.stride), as<float>(a_lse.first + row * a_lse.stride),
          as<float>(b.first + row * b.stride), as<float>(b_lse.first + row * b_lse.stride),
          rows * columns, plan.program[value].columns.width);
    };
    if (a.is_run() && b.is_run()) return merge(0, to.rows);
    for (std::int64_t row = 0; row < to.rows; ++row) merge(row, 1);
    return;
  }
  for (std::size_t m = 0; m < to.matrices.size(); ++m) {
    const Rectangle::Matrix &a = to.matrices[m], &b = from.matrices[m];
    for_runs(a, b, to.rows, [&](std::int64_t in_a, std::int64_t in_b, std::int64_t rows) {
      add_to(as<float>(a.first + in_a), as<float>(b.first + in_b), rows * a.row_bytes / 4);
    });
  }
}

void set_place(MessageEnd& m, const Rectangle& at) {
  for (std::size_t i = 0; i < m.piece.size(); ++i) {
    m.piece[i] = at.matrices[i].first;
    m.bytes[i] = at.rows * at.matrices[i].row_bytes;
  }
}

}  // namespace ringsched
