// The drivers: how a tile is cut into blocks, for any table of kernels.
#pragma once

#include "call.hpp"
#include "kernels.hpp"

namespace ringsched::cpu {

inline constexpr std::int32_t kBlockRows = 96;  // a multiple of kRowGroup
inline constexpr std::int32_t kBlockKeys = 128;

void forward(const Kernels&, const ForwardCall&, Scratch::Memory&);
void backward(const Kernels&, const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
