// Products of panels. One strip of R rows by V vectors of c is kept in registers while k runs.
#pragma once

#include "simd_vector.hpp"

namespace ringsched::cpu {
namespace {

template <int R, int V>
inline void accumulate(Floats (&sum)[R][V], const float* a, std::size_t a_row, const float* b) {
  Floats x[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) x[v] = load(b + v * kLanes);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const Floats y = broadcast(a[static_cast<std::size_t>(r) * a_row]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] += x[v] * y;
  }
}

template <bool Transposed, int R, int V>
void strip(const Product& p, std::int32_t row) {
  Floats sum[R][V];
  float* c = p.c + row * kWidth;
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const float* old = c + r * kWidth + v * kLanes;
      if (p.into == Into::Overwrite)
        sum[r][v] = Floats{};
      else if (p.into == Into::Add)
        sum[r][v] = load(old);
      else
        sum[r][v] = load(old) * p.rescale[row + r];
    }
  const float* b = p.b + static_cast<std::ptrdiff_t>(p.k0) * kWidth;
  if constexpr (Transposed) {
    const float* a = p.a + static_cast<std::ptrdiff_t>(p.k0) * kWidth + row;
    for (std::int32_t k = p.k0; k < p.k1; ++k, a += kWidth, b += kWidth) accumulate(sum, a, 1, b);
  } else {
    for (std::int32_t k = p.k0; k < p.k1;) {  // k0 may lie inside a panel of a, like k1
      const std::int32_t inside = k % kWidth;
      const float* a = p.a + static_cast<std::size_t>(k / kWidth) * p.a_panel + row * kWidth;
      std::int32_t end = k + kWidth - inside;
      end = end < p.k1 ? end : p.k1;
      a += inside;
      for (; k < end; ++k, ++a, b += kWidth) accumulate(sum, a, kWidth, b);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(c + r * kWidth + v * kLanes, sum[r][v]);
}

template <bool Transposed, int V>
void strips(const Product& p) {
  std::int32_t row = 0;
  for (; row + kRowGroup <= p.rows; row += kRowGroup) strip<Transposed, kRowGroup, V>(p, row);
  switch (p.rows - row) {
    case 5:
      return strip<Transposed, 5, V>(p, row);
    case 4:
      return strip<Transposed, 4, V>(p, row);
    case 3:
      return strip<Transposed, 3, V>(p, row);
    case 2:
      return strip<Transposed, 2, V>(p, row);
    case 1:
      return strip<Transposed, 1, V>(p, row);
    default:
      return;
  }
}

template <bool Transposed>
void product(const Product& p) {
  switch ((p.columns + kLanes - 1) / kLanes) {
    case 1:
      return strips<Transposed, 1>(p);
    case 2:
      return strips<Transposed, 2>(p);
#if RINGSCHED_VECTORS == 4
    case 3:
      return strips<Transposed, 3>(p);
    case 4:
      return strips<Transposed, 4>(p);
#endif
    default:
      return;
  }
}

}  // namespace
}  // namespace ringsched::cpu
