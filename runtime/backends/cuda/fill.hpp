// Makes inputs on the GPU: the same numbers as those of Inputs.
#pragma once

#include <vector>

#include "backends/cuda/device_calls.hpp"
#include "ringsched/runtime/inputs.hpp"

namespace ringsched::cuda {

// A matrix of `rows` tokens at `positions`.
FillInputs fill_inputs(const Problem&, std::uint64_t seed, InputKind, Matrix,
                       const std::int32_t* positions, std::int64_t rows, std::byte* out);

// All of an initial tensor; `positions` are those of its region.
std::vector<FillInputs> fills_of(const Plan&, const InitialTensor&, std::uint64_t seed, InputKind,
                                 const std::int32_t* positions, std::byte* out);

// Of the tokens of a region.
std::vector<std::int32_t> positions_of(const Layout&, Region);

}  // namespace ringsched::cuda
