// Inputs that are made where they are used: the same numbers as those of Inputs.
#pragma once

#include "backends/cuda/steps.hpp"
#include "input_numbers.hpp"
#include "ringsched/runtime/inputs.hpp"

namespace ringsched::cuda {

// A matrix of `rows` tokens at `positions`.
inline FillInputs fill_inputs(const Problem& p, std::uint64_t seed, InputKind kind, Matrix matrix,
                              const std::int32_t* positions, std::int64_t rows, std::byte* out) {
  const bool key = matrix == Matrix::Key, query = matrix == Matrix::Query;
  return {rows,
          key || matrix == Matrix::Value ? p.kv_heads : p.heads,
          p.head_dim,
          p.dtype,
          positions,
          mixed_seed(seed),
          static_cast<std::uint32_t>(matrix),
          kind == InputKind::Large && (key || query) ? kLargeInputs : 1.0f,
          kind == InputKind::Equal && key,
          kind == InputKind::NotANumber && key ? p.tokens.value - 1 : -1,
          out};
}

}  // namespace ringsched::cuda
