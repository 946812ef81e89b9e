// How tensors lie in memory: as up to three matrices, one behind the other, a row for each token.
//
//   Query, OutputGradient, QueryGradient   [rows][heads][head_dim]
//   KeyValue, KeyValueGradient             keys, then values: [rows][kv_heads][head_dim] each
//   Partial                                output, fp32; then its log-sum-exp: [rows][heads], fp32
//   PreparedGradient                       log-sum-exp; delta: [rows][heads], fp32; output gradient
//
// What is fp32 stands first, so that it is aligned whatever the dtype of the rest.
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

TensorForm tensor_form(const Problem&, TensorKind, Tokens rows);

// How many rows of `whole` stand before `part`, which it contains.
std::int64_t rows_before(const Layout&, Region part, Region whole);

}  // namespace ringsched
