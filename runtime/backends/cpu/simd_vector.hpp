// Vectors of RINGSCHED_LANES floats, as a GCC and Clang language extension: the same source serves
// every instruction set. Everything in simd_*.hpp has internal linkage, because each source that
// includes it is compiled with different flags, and a linker would keep only one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels.hpp"

namespace ringsched::cpu {
namespace {

constexpr std::int32_t kLanes = RINGSCHED_LANES;
constexpr std::int32_t kVectors = RINGSCHED_VECTORS;  // in a panel's row
constexpr std::int32_t kWidth = kLanes * kVectors;

// Lanes of floats and of their bits. They may alias, because they overlay arrays of floats.
using Floats __attribute__((vector_size(4 * RINGSCHED_LANES), may_alias)) = float;
using Bits __attribute__((vector_size(4 * RINGSCHED_LANES), may_alias)) = std::uint32_t;
using Ints __attribute__((vector_size(4 * RINGSCHED_LANES), may_alias)) = std::int32_t;
using Halves __attribute__((vector_size(2 * RINGSCHED_LANES), may_alias)) = std::uint16_t;

using Indices = std::make_integer_sequence<int, RINGSCHED_LANES>;

inline Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline void store(float* to, Floats x) { *reinterpret_cast<Floats*>(to) = x; }
// Subtract zero: adding zero would change the sign of -0, and so cost an instruction.
inline Floats broadcast(float x) { return x - Floats{}; }

// The second in lanes that are NaN.
inline Floats maximum(Floats a, Floats b) { return a > b ? a : b; }
inline Floats minimum(Floats a, Floats b) { return a < b ? a : b; }

template <int By, int... I>
inline Floats rotate(Floats x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, x, ((I + By) % kLanes)...);
}

template <int By = RINGSCHED_LANES / 2>
inline float largest(Floats x) {
  if constexpr (By == 0)
    return x[0];
  else
    return largest<By / 2>(maximum(x, rotate<By>(x, Indices{})));
}

inline Ints lane_numbers() {
  return []<int... I>(std::integer_sequence<int, I...>) { return Ints{I...}; }
  (Indices{});
}

// Which of the lanes, beginning at key `first`, a row sees.
inline Ints seen(const KeySpans& spans, std::int32_t first) {
  const Ints key = lane_numbers() + first;
  return ((key >= spans.begin[0]) & (key < spans.end[0])) |
         ((key >= spans.begin[1]) & (key < spans.end[1]));
}

// e^x for x <= 88: relative error below 2e-7, zero below -87.7, NaN stays NaN. Cephes' polynomial.
// The low bits of `shifted` are those of x / ln 2 rounded to an integer.
inline Floats exponential(Floats x) {
  x = maximum(broadcast(-88.0f), x);
  const Floats shifted = x * 1.44269504f + 12582912.0f;
  const Floats n = shifted - 12582912.0f;
  Floats r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Bits power = (reinterpret_cast<const Bits&>(shifted) << 23) + 0x3F800000u;
  return p * reinterpret_cast<const Floats&>(power);
}

}  // namespace
}  // namespace ringsched::cpu
