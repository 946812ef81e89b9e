#include "amx.hpp"
#include "drivers.hpp"
namespace ringsched::cpu {
void amx_backward(const BackwardCall& call, Scratch::Memory& memory) {
  backward(avx512_kernels(), call, memory);
}
}  // namespace ringsched::cpu
