// Some rows and some columns of a tensor in host memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ringsched/runtime/transport.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct Rectangle {
  struct Matrix {
    std::byte* first = nullptr;  // its first row
    std::int64_t row_bytes = 0;
    std::int64_t stride = 0;  // from one row to the next

    bool is_run() const { return row_bytes == stride; }
  };
  std::array<Matrix, 3> matrices{};
  std::int64_t rows = 0;
};

// These cells of a tensor that holds `held`, which begins at `data`.
Rectangle rectangle(const Plan&, std::byte* data, const Piece& held, Region rows, ColumnRange);
// A tensor of just these cells.
Rectangle packed(const Plan&, std::byte* data, ValueId, Region rows, ColumnRange);

void copy(const Rectangle& from, const Rectangle& to);
// Sets the cells of `to` to those of a sum without terms.
void clear(const Plan&, ValueId, const Rectangle& to);
// Adds the terms in `from` to those in `to`.
void add(const Plan&, ValueId, const Rectangle& from, const Rectangle& to);

// Where a message takes these cells from, or puts them: each matrix is contiguous.
void set_place(MessageEnd&, const Rectangle&);

}  // namespace ringsched
