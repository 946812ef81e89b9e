// Rows of bf16 to tiles, padded with zeros.
#pragma once

#include "bf16_vectors.hpp"

namespace ringsched::cpu {
namespace {

inline const Bf16* row_at(const void* base, std::size_t offset) {
  return static_cast<const Bf16*>(base) + offset;
}

// Left operands: [columns / 32][rows of the block][32]. `flip` is xored: 0x8000 negates.
inline void pack_left(RowLoader& load, const void* base, const std::size_t* offsets,
                      std::int32_t rows, std::int32_t block_rows, std::int32_t columns, Bf16 flip,
                      Bf16* to) {
  const __m512i sign = _mm512_set1_epi16(static_cast<short>(flip));
  for (std::int32_t c = 0; c < columns; c += kChunk) {
    Bf16* const chunk = to + wide(c) * wide(block_rows);
    for (std::int32_t r = 0; r < up_to(rows, kChunk); ++r) {
      const __m512i x =
          r < rows ? load(row_at(base, offsets[r]) + c, columns - c) : _mm512_setzero_si512();
      _mm512_store_si512(chunk + r * kChunk, _mm512_xor_si512(x, sign));
    }
  }
}

// Right operands whose columns are the given rows, at most 16: [columns / 32][tile].
inline void pack_right_transposed(RowLoader& load, const void* base, const std::size_t* offsets,
                                  std::int32_t rows, std::int32_t columns, Bf16* to) {
  for (std::int32_t c = 0; c < columns; c += kChunk, to += kTileElements) {
    __m512i x[16];
    for (int r = 0; r < 16; ++r)
      x[r] = r < rows ? load(row_at(base, offsets[r]) + c, columns - c) : _mm512_setzero_si512();
    transpose(x);
    for (int r = 0; r < 16; ++r) _mm512_store_si512(to + r * kChunk, x[r]);
  }
}

// Right operands in which k counts the given rows, at most 32: [columns / 16][tile].
inline void pack_right(RowLoader& load, const void* base, const std::size_t* offsets,
                       std::int32_t rows, std::int32_t columns, Bf16* to) {
  for (std::int32_t c = 0; c < columns; c += kChunk, to += 2 * kTileElements)
    for (std::int32_t r = 0; r < kChunk; r += 2) {
      const auto row = [&](std::int32_t i) {
        return i < rows ? load(row_at(base, offsets[i]) + c, columns - c) : _mm512_setzero_si512();
      };
      const Pairs pairs = interleave(row(r), row(r + 1));
      _mm512_store_si512(to + r / 2 * kChunk, pairs.first);
      _mm512_store_si512(to + kTileElements + r / 2 * kChunk, pairs.second);
    }
}

// Left operands whose rows are columns: [columns / 16][tile], in which k counts the given rows.
inline void pack_left_transposed(RowLoader& load, const void* base, const std::size_t* offsets,
                                 std::int32_t rows, std::int32_t columns, Bf16* to) {
  pack_right(load, base, offsets, rows, columns, to);
  for (std::int32_t c = 0; c < up_to(columns, kChunk); c += kTile, to += kTileElements) {
    __m512i x[16];
    for (int r = 0; r < 16; ++r) x[r] = _mm512_load_si512(to + r * kChunk);
    transpose(x);
    for (int r = 0; r < 16; ++r) _mm512_store_si512(to + r * kChunk, x[r]);
  }
}

}  // namespace
}  // namespace ringsched::cpu
