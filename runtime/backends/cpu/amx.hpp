// Attention of bf16 with tile registers (AMX). Both return false, having written nothing, where
// something is not finite: a product with zero would then be NaN where a key is merely hidden.
#pragma once

#include "call.hpp"

namespace ringsched::cpu {

bool amx_forward(const ForwardCall&, Scratch::Memory&);
bool amx_backward(const BackwardCall&, Scratch::Memory&);

}  // namespace ringsched::cpu
