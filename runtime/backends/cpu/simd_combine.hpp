// Merges and sums, at the speed of memory: a row's log and exp must hide behind its bytes, and do
// so if the loops over a row are few instructions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels.hpp"

namespace ringsched::cpu {
namespace {

void merge(float* a, float* a_lse, const float* b, const float* b_lse, std::int64_t rows,
           std::uint32_t width) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t r = 0; r < rows; ++r) {
    float* x = a + r * width;
    const float* y = b + r * width;
    const float la = a_lse[r], lb = b_lse[r];
    if (lb == nothing) continue;
    if (la == nothing) {
      std::memcpy(x, y, width * sizeof(float));
      a_lse[r] = lb;
      continue;
    }
    // The share of b, and a log of a sum that cannot overflow.
    const float smaller = std::exp(-std::abs(la - lb));
    const float share = (la > lb ? smaller : 1) / (1 + smaller);
    a_lse[r] = std::max(la, lb) + std::log1p(smaller);
    for (std::uint32_t i = 0; i < width; ++i) x[i] += share * (y[i] - x[i]);
  }
}

void add(float* a, const float* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) a[i] += b[i];
}

}  // namespace
}  // namespace ringsched::cpu
