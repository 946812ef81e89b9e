#include "ringsched/runtime/numbers.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace ringsched {

float from_bf16(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_fp16(std::uint16_t x) {
  const std::uint32_t sign = (x & 0x8000u) << 16, exponent = x >> 10 & 0x1f, rest = x & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | rest << 13);
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(rest), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | rest << 13);
}

std::uint16_t to_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(x)) return sign | 0x7e00;
  const float size = std::fabs(x);
  if (size >= 65520.0f) return sign | 0x7c00;
  if (size < 0x1p-14f)  // the spacing is 2^-24 here; nearbyint ties to even
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  const std::uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return sign | static_cast<std::uint16_t>((rounded >> 13) - (112 << 10));
}

float number_at(const std::byte* array, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::Fp32) {
    float x;
    std::memcpy(&x, array + 4 * i, 4);
    return x;
  }
  std::uint16_t x;
  std::memcpy(&x, array + 2 * i, 2);
  return dtype == Dtype::Bf16 ? from_bf16(x) : from_fp16(x);
}

void put_number(std::byte* array, Dtype dtype, std::int64_t i, float value) {
  if (dtype == Dtype::Fp32) {
    std::memcpy(array + 4 * i, &value, 4);
    return;
  }
  const std::uint16_t x = dtype == Dtype::Bf16 ? to_bf16(value) : to_fp16(value);
  std::memcpy(array + 2 * i, &x, 2);
}

double spacing(Dtype dtype) {
  return dtype == Dtype::Fp32 ? 0x1p-23 : dtype == Dtype::Bf16 ? 0x1p-7 : 0x1p-10;
}

double score_scale(const Problem& p) { return 1 / std::sqrt(static_cast<double>(p.head_dim)); }

}  // namespace ringsched
