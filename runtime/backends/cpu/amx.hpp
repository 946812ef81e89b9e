// Attention of bf16 with tile registers (AMX), for a scale that is not zero. Hidden scores are
// products too, and what is hidden is multiplied with zero: that must not be NaN. So both return
// false, and what they have written is worthless, where the tile reads something that is not
// finite.
#pragma once

#include "call.hpp"

namespace ringsched::cpu {

[[nodiscard]] bool amx_forward(const ForwardCall&, Scratch::Memory&);
[[nodiscard]] bool amx_backward(const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
