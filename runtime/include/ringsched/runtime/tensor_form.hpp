// How tensors are stored: as up to three matrices, one after the other, with a row for each token.
//
// The value's type says which matrices, in this order: [rows][columns][elements of a column] each,
// or [rows][columns] if there is one number for each (a log-sum-exp).
//
// A part of a tensor is some rows of each matrix.
#pragma once

#include <array>
#include <cstdint>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct TensorForm {
  std::array<std::int64_t, 3> row_bytes{};  // of each matrix; 0: there is none
  std::int64_t rows = 0;

  // Where row `row` of a matrix begins, in bytes from the start of the tensor.
  std::int64_t at(std::size_t matrix, std::int64_t row = 0) const {
    std::int64_t offset = row * row_bytes[matrix];
    for (std::size_t m = 0; m < matrix; ++m) offset += rows * row_bytes[m];
    return offset;
  }
};

TensorForm tensor_form(const Program&, ValueId, Tokens rows, std::uint32_t columns);
TensorForm tensor_form(const Program&, ValueId, Tokens rows);  // with all columns

// How many rows of `whole` come before `part`, which it contains.
std::int64_t rows_before(const Layout&, Region part, Region whole);

}  // namespace ringsched
