#include "combine.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "kernels.hpp"
#include "ringsched/runtime/numbers.hpp"

namespace ringsched {

void merge_partials(float* a, float* a_lse, const float* b, const float* b_lse, std::int64_t rows,
                    std::uint32_t width) {
  cpu::best_kernels().merge(a, a_lse, b, b_lse, rows, width);
}

void add_to(float* a, const float* b, std::int64_t count) { cpu::best_kernels().add(a, b, count); }

void round_to(Dtype dtype, const float* from, std::int64_t count, std::byte* to) {
  if (dtype == Dtype::Fp32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * 4);
    return;
  }
  if (dtype == Dtype::Fp16) {
    for (std::int64_t i = 0; i < count; ++i) put_number(to, dtype, i, from[i]);
    return;
  }
  // As to_bf16() does it, but without a branch, so that the compiler can vectorise it.
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t nan = bits >> 16 | 0x40, number = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    out[i] = static_cast<std::uint16_t>(from[i] != from[i] ? nan : number);
  }
}

namespace {

float bf16(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

// In eight sums at a time, so that the compiler can vectorise it.
template <class T, class Number>
float product(const float* x, const T* y, std::uint32_t width, Number number) {
  constexpr std::uint32_t lanes = 8;
  std::array<float, lanes> sums{};
  std::uint32_t i = 0;
  for (; i + lanes <= width; i += lanes)
    for (std::uint32_t l = 0; l < lanes; ++l) sums[l] += x[i + l] * number(y[i + l]);
  for (; i < width; ++i) sums[0] += x[i] * number(y[i]);
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

}  // namespace

void row_products(const float* x, const std::byte* y, Dtype y_dtype, std::int64_t rows,
                  std::uint32_t width, float* out) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(y);
  const auto* floats = reinterpret_cast<const float*>(y);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = r * width;
    out[r] = y_dtype == Dtype::Fp32 ? product(x + at, floats + at, width, [](float v) { return v; })
             : y_dtype == Dtype::Bf16 ? product(x + at, halves + at, width, bf16)
                                      : product(x + at, halves + at, width, from_fp16);
  }
}

}  // namespace ringsched
