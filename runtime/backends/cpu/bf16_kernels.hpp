// Attention of bf16 without conversion, by products of tiles, for a scale that is not zero: in tile
// registers (AMX) or in vectors (AVX512_BF16). Hidden scores are multiplied too, with zero, so they
// must not be NaN. All functions return false, and their output is worthless, if the tile reads
// something that is not finite.
#pragma once

#include "call.hpp"

namespace ringsched::cpu {

[[nodiscard]] bool amx_forward(const ForwardCall&, Scratch::Memory&);
[[nodiscard]] bool amx_backward(const BackwardCall&, Scratch::Memory&);
[[nodiscard]] bool avx512bf16_forward(const ForwardCall&, Scratch::Memory&);
[[nodiscard]] bool avx512bf16_backward(const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
