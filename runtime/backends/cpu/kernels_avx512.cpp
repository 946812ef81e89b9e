#define RINGSCHED_LANES 16
#define RINGSCHED_VECTORS 4
#include "simd_combine.hpp"
#include "simd_multiply.hpp"
#include "simd_pack.hpp"
#include "simd_softmax.hpp"

namespace ringsched::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = {
      kWidth,        kLanes,       pack,          transpose, unpack, product<false>,
      product<true>, exponentials, probabilities, merge,     add};
  return kKernels;
}

}  // namespace ringsched::cpu
