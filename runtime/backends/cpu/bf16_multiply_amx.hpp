// Products of tiles in tile registers.
#pragma once

#include "bf16_vectors.hpp"

namespace ringsched::cpu {
namespace {

// GCC does not know that tile loads read memory, so it might move stores behind them.
inline void fence() { __asm__ volatile("" ::: "memory"); }

struct TileRegisters {
  TileRegisters() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    fence();
    _tile_loadconfig(&config);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

template <bool Add>
inline void multiply(const TileProduct& p) {
  float* const c01 = p.c + p.c_second_column;
  float* const c10 = p.c + p.c_second_row;
  float* const c11 = c01 + p.c_second_row;
  fence();
  if constexpr (Add) {
    _tile_loadd(0, p.c, 64);
    _tile_loadd(1, c01, 64);
    _tile_loadd(2, c10, 64);
    _tile_loadd(3, c11, 64);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const Bf16* a = p.a;
  const Bf16* b = p.b;
  for (std::int32_t k = 0; k < p.steps; ++k, a += p.a_step, b += p.b_step) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + p.b_second, 64);
    _tile_loadd(5, a + p.a_second, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, p.c, 64);
  _tile_stored(1, c01, 64);
  _tile_stored(2, c10, 64);
  _tile_stored(3, c11, 64);
  fence();
}

}  // namespace
}  // namespace ringsched::cpu
