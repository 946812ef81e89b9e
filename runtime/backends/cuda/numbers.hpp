// Numbers of any dtype, one or eight at a time, on CPU and GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "host_device.hpp"
#include "ringsched/runtime/numbers.hpp"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace ringsched::cuda {

RINGSCHED_BOTH constexpr float minus_infinity() { return -std::numeric_limits<float>::infinity(); }

RINGSCHED_BOTH inline float widened(std::uint16_t x, Dtype dtype) {
#if defined(__CUDA_ARCH__)
  return dtype == Dtype::Bf16 ? __bfloat162float(__ushort_as_bfloat16(x))
                              : __half2float(__ushort_as_half(x));
#else
  return dtype == Dtype::Bf16 ? from_bf16(x) : from_fp16(x);
#endif
}

// To the nearest, ties to even.
RINGSCHED_BOTH inline std::uint16_t narrowed(float x, Dtype dtype) {
#if defined(__CUDA_ARCH__)
  return dtype == Dtype::Bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                              : __half_as_ushort(__float2half_rn(x));
#else
  return dtype == Dtype::Bf16 ? to_bf16(x) : to_fp16(x);
#endif
}

RINGSCHED_BOTH inline float load(const std::byte* array, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::Fp32) return reinterpret_cast<const float*>(array)[i];
  return widened(reinterpret_cast<const std::uint16_t*>(array)[i], dtype);
}

RINGSCHED_BOTH inline void store(std::byte* array, Dtype dtype, std::int64_t i, float x) {
  if (dtype == Dtype::Fp32)
    reinterpret_cast<float*>(array)[i] = x;
  else
    reinterpret_cast<std::uint16_t*>(array)[i] = narrowed(x, dtype);
}

// Sixteen or thirty-two bytes at once, as GPU memory prefers. `i` is a multiple of eight, and the
// array begins at a multiple of 16 bytes.
struct Eight {
  float x[8];
};

#if !defined(__CUDA_ARCH__)
// A GPU would trap here, so a CPU must fail too: tests run these functions there.
inline void require_aligned(const std::byte* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0)
    throw std::logic_error("eight numbers are not at a multiple of 16 bytes");
}
#endif

RINGSCHED_BOTH inline Eight load_eight(const std::byte* array, Dtype dtype, std::int64_t i) {
  Eight out;
#if defined(__CUDA_ARCH__)
  if (dtype == Dtype::Fp32) {
    const auto* from = reinterpret_cast<const float4*>(array + 4 * i);
    const float4 low = from[0], high = from[1];
    out = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    return out;
  }
  const uint4 bits = *reinterpret_cast<const uint4*>(array + 2 * i);
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  for (int k = 0; k < 4; ++k) {
    out.x[2 * k] = widened(static_cast<std::uint16_t>(words[k] & 0xffff), dtype);
    out.x[2 * k + 1] = widened(static_cast<std::uint16_t>(words[k] >> 16), dtype);
  }
#else
  require_aligned(array + size_of(dtype) * i);
  for (int k = 0; k < 8; ++k) out.x[k] = load(array, dtype, i + k);
#endif
  return out;
}

RINGSCHED_BOTH inline void store_eight(std::byte* array, Dtype dtype, std::int64_t i,
                                       const Eight& e) {
#if defined(__CUDA_ARCH__)
  if (dtype == Dtype::Fp32) {
    auto* to = reinterpret_cast<float4*>(array + 4 * i);
    to[0] = make_float4(e.x[0], e.x[1], e.x[2], e.x[3]);
    to[1] = make_float4(e.x[4], e.x[5], e.x[6], e.x[7]);
    return;
  }
  std::uint32_t words[4];
  for (int k = 0; k < 4; ++k)
    words[k] = narrowed(e.x[2 * k], dtype) |
               static_cast<std::uint32_t>(narrowed(e.x[2 * k + 1], dtype)) << 16;
  *reinterpret_cast<uint4*>(array + 2 * i) = make_uint4(words[0], words[1], words[2], words[3]);
#else
  require_aligned(array + size_of(dtype) * i);
  for (int k = 0; k < 8; ++k) store(array, dtype, i + k, e.x[k]);
#endif
}

}  // namespace ringsched::cuda
