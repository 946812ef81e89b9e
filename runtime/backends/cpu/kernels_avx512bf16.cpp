#include "bf16_kernels.hpp"

#include "bf16_multiply_vectors.hpp"
// The include order matters: the headers below use the multiply functions of the header above.

#include "bf16_backward.hpp"
#include "bf16_forward.hpp"

namespace ringsched::cpu {

bool avx512bf16_forward(const ForwardCall& call, Scratch::Memory& memory) {
  return bf16_forward(call, memory);
}

bool avx512bf16_backward(const BackwardCall& call, Scratch::Memory& memory) {
  return bf16_backward(call, memory);
}

}  // namespace ringsched::cpu
