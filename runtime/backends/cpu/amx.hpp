// Attention of bf16 with tile registers (AMX). All that the tile reads must be finite, and the
// scale not zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.hpp"

namespace ringsched::cpu {

bool bf16_rows_are_finite(const void* base, const std::int32_t* rows, std::size_t count,
                          std::size_t elements);

void amx_forward(const ForwardCall&, Scratch::Memory&);
void amx_backward(const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
