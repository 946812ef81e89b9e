// Products of tiles in vectors of pairs (AVX512_BF16), for CPUs without tile registers.
#pragma once

#include "bf16_vectors.hpp"

namespace ringsched::cpu {
namespace {

struct TileRegisters {
  TileRegisters() {}  // NOLINT: a default one would be an unused variable
};

// Eight rows of both column tiles at a time: 16 sums, and two vectors of b for eight pairs of a.
template <bool Add>
inline void multiply(const TileProduct& p) {
  constexpr std::int32_t kAtOnce = 8;
  for (std::int32_t row = 0; row < 2 * kTile; row += kAtOnce) {
    const std::size_t tile = wide(row / kTile), in_tile = wide(row % kTile);
    float* const c = p.c + tile * p.c_second_row + in_tile * kTile;
    const Bf16* a = p.a + tile * p.a_second + in_tile * kChunk;
    const Bf16* b = p.b;
    __m512 sums[kAtOnce][2];
#pragma GCC unroll 8
    for (std::int32_t r = 0; r < kAtOnce; ++r) {
      sums[r][0] = Add ? _mm512_load_ps(c + r * kTile) : _mm512_setzero_ps();
      sums[r][1] = Add ? _mm512_load_ps(c + p.c_second_column + r * kTile) : _mm512_setzero_ps();
    }
    for (std::int32_t k = 0; k < p.steps; ++k, a += p.a_step, b += p.b_step)
#pragma GCC unroll 2
      for (std::int32_t pair = 0; pair < kChunk; pair += 2) {
        const auto of_b = [&](std::size_t second) {
          return reinterpret_cast<__m512bh>(_mm512_load_si512(b + second + pair * kTile));
        };
        const __m512bh first = of_b(0), second = of_b(p.b_second);
#pragma GCC unroll 8
        for (std::int32_t r = 0; r < kAtOnce; ++r) {
          std::int32_t both;
          __builtin_memcpy(&both, a + r * kChunk + pair, sizeof both);
          const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
          sums[r][0] = _mm512_dpbf16_ps(sums[r][0], x, first);
          sums[r][1] = _mm512_dpbf16_ps(sums[r][1], x, second);
        }
      }
#pragma GCC unroll 8
    for (std::int32_t r = 0; r < kAtOnce; ++r) {
      _mm512_store_ps(c + r * kTile, sums[r][0]);
      _mm512_store_ps(c + p.c_second_column + r * kTile, sums[r][1]);
    }
  }
}

}  // namespace
}  // namespace ringsched::cpu
