// Attention of bf16 without conversion, by products of tiles, for a scale that is not zero: in tile
// registers (AMX) or in vectors (AVX512_BF16). Hidden scores are products too, and what is hidden
// is multiplied with zero: that must not be NaN. So all return false, and what they have written is
// worthless, where the tile reads something that is not finite.
#pragma once

#include "call.hpp"

namespace ringsched::cpu {

[[nodiscard]] bool amx_forward(const ForwardCall&, Scratch::Memory&);
[[nodiscard]] bool amx_backward(const BackwardCall&, Scratch::Memory&);
[[nodiscard]] bool avx512bf16_forward(const ForwardCall&, Scratch::Memory&);
[[nodiscard]] bool avx512bf16_backward(const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
