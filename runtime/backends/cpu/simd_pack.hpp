// Rows of any element type to panels of floats, panels transposed, and panels back to rows.
#pragma once

#include "simd_vector.hpp"

namespace ringsched::cpu {
namespace {

using UnalignedFloats __attribute__((vector_size(4 * RINGSCHED_LANES), aligned(4), may_alias)) =
    float;
using UnalignedHalves __attribute__((vector_size(2 * RINGSCHED_LANES), aligned(2), may_alias)) =
    std::uint16_t;

inline Floats as_floats(Bits x) { return reinterpret_cast<const Floats&>(x); }

struct FromFp32 {
  using Stored = float;
  static Floats at(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
};

struct FromBf16 {
  using Stored = std::uint16_t;
  static Floats at(const std::uint16_t* from) {
    const Halves x = *reinterpret_cast<const UnalignedHalves*>(from);
    return as_floats(__builtin_convertvector(x, Bits) << 16);
  }
};

struct FromFp16 {
  using Stored = std::uint16_t;
  static Floats at(const std::uint16_t* from) {
    const Halves stored = *reinterpret_cast<const UnalignedHalves*>(from);
    const Bits x = __builtin_convertvector(stored, Bits);
    const Bits magnitude = (x & 0x7FFFu) << 13;
    // The exponents differ by 112, and multiplying also gives the right subnormal numbers.
    const Floats scaled = as_floats(magnitude) * 0x1p112f;
    const Bits special = magnitude | 0x7F800000u;
    const Bits bits = (x & 0x7C00u) == 0x7C00u ? special : reinterpret_cast<const Bits&>(scaled);
    return as_floats(bits | ((x & 0x8000u) << 16));
  }
};

template <class From>
bool pack_rows(const void* base, const std::size_t* offsets, std::int32_t rows,
               std::int32_t columns, float factor, float* to, std::size_t to_panel) {
  Floats checked{};  // NaN as soon as something is not finite
  for (std::int32_t row = 0; row < rows; ++row) {
    const auto* from = static_cast<const typename From::Stored*>(base) + offsets[row];
    for (std::int32_t c = 0; c < columns; c += kLanes) {
      Floats x;
      if (c + kLanes <= columns) {
        x = From::at(from + c);
      } else {  // nothing may be read beyond the row
        alignas(64) typename From::Stored last[RINGSCHED_LANES] = {};
        for (std::int32_t i = 0; i < columns - c; ++i) last[i] = from[c + i];
        x = From::at(last);
      }
      checked += x * 0.0f;
      store(to + static_cast<std::size_t>(c / kWidth) * to_panel + row * kWidth + c % kWidth,
            x * factor);
    }
  }
  std::int32_t finite = 0;
  const Ints same = checked == checked;
  for (int i = 0; i < kLanes; ++i) finite += same[i];
  return finite == -kLanes;
}

bool pack(Element element, const void* base, const std::size_t* offsets, std::int32_t rows,
          std::int32_t columns, float factor, float* to, std::size_t to_panel) {
  switch (element) {
    case Element::Fp32:
      return pack_rows<FromFp32>(base, offsets, rows, columns, factor, to, to_panel);
    case Element::Bf16:
      return pack_rows<FromBf16>(base, offsets, rows, columns, factor, to, to_panel);
    case Element::Fp16:
      return pack_rows<FromFp16>(base, offsets, rows, columns, factor, to, to_panel);
  }
  return false;
}

template <int Half, int... I>
inline Floats interleave(Floats a, Floats b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Half * kLanes / 2 + I / 2 + (I % 2) * kLanes)...);
}

// Interleaving the first half with the second half, log2(lanes) times, transposes.
inline void transpose_square(Floats (&x)[RINGSCHED_LANES]) {
#pragma GCC unroll 4
  for (int step = 1; step < kLanes; step *= 2) {
    Floats y[RINGSCHED_LANES];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      y[2 * i] = interleave<0>(x[i], x[i + kLanes / 2], Indices{});
      y[2 * i + 1] = interleave<1>(x[i], x[i + kLanes / 2], Indices{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

void transpose(const float* from, std::size_t from_panel, std::int32_t rows, std::int32_t columns,
               float* to) {
  for (std::int32_t r = 0; r < kWidth; r += kLanes)
    for (std::int32_t c = 0; c < columns; c += kLanes) {
      Floats x[RINGSCHED_LANES];
      const float* place = from + static_cast<std::size_t>(c / kWidth) * from_panel + c % kWidth;
      for (int i = 0; i < kLanes; ++i)
        x[i] = r + i < rows ? load(place + (r + i) * kWidth) : Floats{};
      transpose_square(x);
      const std::int32_t live = columns - c < kLanes ? columns - c : kLanes;
      for (int i = 0; i < live; ++i) store(to + static_cast<std::size_t>(c + i) * kWidth + r, x[i]);
    }
}

void unpack(const float* from, std::size_t from_panel, const float* factors, float* base,
            const std::size_t* offsets, std::int32_t rows, std::int32_t columns) {
  for (std::int32_t row = 0; row < rows; ++row) {
    float* to = base + offsets[row];
    const float factor = factors[row];
    for (std::int32_t c = 0; c < columns; c += kLanes) {
      const Floats x = load(from + static_cast<std::size_t>(c / kWidth) * from_panel +
                            row * kWidth + c % kWidth) *
                       factor;
      if (c + kLanes <= columns)
        *reinterpret_cast<UnalignedFloats*>(to + c) = x;
      else
        for (std::int32_t i = 0; i < columns - c; ++i) to[c + i] = x[i];
    }
  }
}

}  // namespace
}  // namespace ringsched::cpu
