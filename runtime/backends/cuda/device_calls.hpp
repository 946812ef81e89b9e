// The calls that make up a task on a GPU: one or more of these, one after the other on its stream.
// They are plain data with addresses; a kernel (kernels.cu), cuDNN, or a test's loop on a CPU
// executes them.
//
// Matrices are [rows][heads][dim] without gaps; "narrow" numbers are of the problem's 16-bit dtype.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "mask_view.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched::cuda {

// A shape of attention that cuDNN may be asked for. `causal`: row i sees the keys up to i.
struct Shape {
  Dtype dtype = Dtype::Bf16;
  bool backward = false, causal = false;
  std::uint32_t heads = 1, kv_heads = 1, head_dim = 128;
  std::int64_t rows = 0, keys = 0;

  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// `stats` are log-sum-exps, [heads][rows].
struct LibraryForward {
  Shape shape;
  const std::byte *query, *key, *value;
  std::byte* output;  // narrow
  float* stats;
};

struct LibraryBackward {
  Shape shape;
  const std::byte *query, *key, *value, *output, *output_gradient;
  const float* stats;
  std::byte *query_gradient, *key_gradient, *value_gradient;  // narrow
};

// The work that remains after it: log-sum-exps to their places, the output to fp32 unless it stays
// as it is. The first `dropped` rows have seen nothing.
struct FinishForward {
  std::int64_t rows, dropped;
  std::uint32_t heads, dim;
  Dtype dtype;
  const float* stats;
  const std::byte* narrow;  // rows from `dropped` on; none: `output` has them, narrow
  std::byte* output;
  float* lse;
};

// Before the backward pass of the library, which needs the output to form delta. It gets the
// projection of the output on its gradient, which has the same delta; and log-sum-exps by head.
struct PrepareBackward {
  std::int64_t rows;
  std::uint32_t heads, dim;
  Dtype dtype;
  const std::byte* output_gradient;
  const float *lse, *delta;
  std::byte* output;
  float* stats;
};

// A tile for our own kernels, which take any.
struct AnyTile {
  MaskView mask;
  const std::int32_t *query_positions, *key_positions;
  std::int64_t rows, keys;
  std::uint32_t heads, kv_heads, dim;
  Dtype dtype;
  float scale;
  const std::byte *query, *key, *value;
};

struct OwnForward {
  AnyTile tile;
  float *output, *lse;
};
struct OwnQueryGradient {
  AnyTile tile;
  const std::byte* output_gradient;
  const float *lse, *delta;
  float* query_gradient;
};
struct OwnKeyValueGradient {
  AnyTile tile;
  const std::byte* output_gradient;
  const float *lse, *delta;
  float *key_gradient, *value_gradient;
};

// One side of a merge or sum: some rows of the result, from `first` on.
struct Side {
  const std::byte* values = nullptr;
  const float* lse = nullptr;  // merges
  Dtype dtype = Dtype::Fp32;
  std::int64_t first = 0, rows = 0;
  std::int64_t part_bytes = 0;  // sums: between the two matrices of a tensor
};

// Rows that neither side has have seen nothing.
struct Merge {
  Side a, b;
  std::int64_t rows;
  std::uint32_t heads, dim;
  float *output, *lse;  // may be those of `a`, if that is fp32 and has all rows
};

// Rows that neither side has are zero. Without `b`, a conversion.
struct Add {
  Side a, b;
  std::int64_t rows;
  std::uint32_t parts, heads, dim;
  std::byte* output;
  std::int64_t part_bytes;
};

struct Prepare {
  std::int64_t rows;
  std::uint32_t heads, dim;
  Dtype dtype;
  const float *output, *output_lse;
  const std::byte* output_gradient;
  float *lse, *delta;
  std::byte* copied_gradient;
};

struct Zero {
  std::byte* to;
  std::int64_t bytes;
};
struct Copy {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};

// Sets *flag to `task`, unless it is lower already, if a number is not finite. A log-sum-exp may be
// minus infinity.
struct CheckFinite {
  const std::byte* values;
  Dtype dtype;
  std::int64_t count;
  bool may_be_minus_infinity;
  std::uint32_t task;
  std::uint32_t* flag;
};

// Inputs, see input_numbers.hpp.
struct FillInputs {
  std::int64_t rows;
  std::uint32_t heads, dim;
  Dtype dtype;
  const std::int32_t* positions;
  std::uint64_t mixed_seed;
  std::uint32_t matrix;
  float times;
  bool all_alike;                // every token as the first
  std::int64_t hole_token = -1;  // its first number is NaN
  std::byte* output;
};

using DeviceCall = std::variant<LibraryForward, LibraryBackward, FinishForward, PrepareBackward,
                                OwnForward, OwnQueryGradient, OwnKeyValueGradient, Merge, Add,
                                Prepare, Zero, Copy, CheckFinite>;

}  // namespace ringsched::cuda
