#include "amx.hpp"
#include "amx_tiles.hpp"

namespace ringsched::cpu {

bool bf16_rows_are_finite(const void* base, const std::int32_t* rows, std::size_t count,
                          std::size_t elements) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  __mmask32 found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* row = static_cast<const Bf16*>(base) + wide(rows[i]) * elements;
    for (std::size_t at = 0; at < elements; at += kChunk) {
      const std::size_t left = elements - at;
      const __m512i x = load_tile_row(row + at, left < kChunk ? static_cast<int>(left) : kChunk);
      found |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    }
  }
  return found == 0;
}

}  // namespace ringsched::cpu
