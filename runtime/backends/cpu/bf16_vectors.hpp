// Tiles of bf16 and the vectors that fill them. A tile is 16 rows of 64 bytes, here always 1 KiB
// without gaps. A product of tiles needs its right operand in pairs of k: row k / 2 holds the pair
// (k, k + 1) of each column. Everything here has internal linkage; see simd_vector.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "call.hpp"
#include "kernels.hpp"

namespace ringsched::cpu {
namespace {

using Bf16 = std::uint16_t;

constexpr std::int32_t kTile = 16;          // rows of a tile, columns of a tile of floats
constexpr std::int32_t kChunk = 32;         // bf16 in a row of a tile
constexpr std::size_t kTileElements = 512;  // bf16 in a tile
constexpr std::size_t kTileFloats = 256;
constexpr float kLog2E = 1.44269504f;

constexpr std::int32_t up_to(std::int32_t x, std::int32_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}
constexpr std::int32_t least(std::int32_t a, std::int32_t b) { return a < b ? a : b; }
constexpr std::size_t wide(std::int32_t x) { return static_cast<std::size_t>(x); }

// Two row tiles of a times two column tiles of b; the steps are those from one k to the next and
// to the second tile, in elements.
struct TileProduct {
  const Bf16* a;
  std::size_t a_step, a_second;
  const Bf16* b;
  std::size_t b_step, b_second;
  float* c;
  std::size_t c_second_row, c_second_column;
  std::int32_t steps;
};

// 16 x 16 of 32 bits.
inline void transpose(__m512i (&x)[16]) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    __m512i y[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = _mm512_permutex2var_epi32(x[i], low, x[i + 8]);
      y[2 * i + 1] = _mm512_permutex2var_epi32(x[i], high, x[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) x[i] = y[i];
  }
}

// Collects rows for tiles, and remembers whether one held something that is not finite.
struct RowLoader {
  __mmask32 not_finite = 0;

  __m512i operator()(const Bf16* from, std::int32_t count) {
    const auto mask = count >= kChunk ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
    const __m512i x = _mm512_maskz_loadu_epi16(mask, from);
    const __m512i exponent = _mm512_set1_epi16(0x7F80);
    not_finite |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    return x;
  }
};

// The pairs of columns [0, 16) and [16, 32) of two rows.
struct Pairs {
  __m512i first, second;
};

inline Pairs interleave(__m512i even, __m512i odd) {
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  return {_mm512_permutex2var_epi16(even, first, odd),
          _mm512_permutex2var_epi16(even, second, odd)};
}

// 2^x, relative error below 3e-6 (a probability is rounded to bf16), 1 at 0, 0 at -infinity. Both
// instructions around the polynomial round x down.
inline __m512 exponential_of_2(__m512 x) {
  const __m512 r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(0.013426689431071281f),
                             _mm512_set1_ps(0.0522424653172493f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.2412802129983902f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.6930448412895203f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, x);
}

inline __mmask16 seen(const KeySpans& spans, std::int32_t first) {
  const __m512i key =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                       _mm512_set1_epi32(first));
  __mmask16 mask = 0;
  for (int i = 0; i < 2; ++i)
    mask = static_cast<__mmask16>(mask |
                                  (_mm512_cmpge_epi32_mask(key, _mm512_set1_epi32(spans.begin[i])) &
                                   _mm512_cmplt_epi32_mask(key, _mm512_set1_epi32(spans.end[i]))));
  return mask;
}

}  // namespace
}  // namespace ringsched::cpu
