#include "ringsched/runtime/inputs.hpp"

#include <array>
#include <limits>
#include <vector>

#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kNames[] = {"normal", "large", "equal", "nan"};

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The sum of four even ones, of variance 1: close to normal, within 3.5.
float normal(std::uint64_t bits) {
  const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                      (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float mean = 2 * 65535.0f, deviation = 37836.6f;  // 65536 / sqrt(3)
  return (sum - mean) / deviation;
}

float rounded(float x, Dtype dtype) {
  return dtype == Dtype::Fp32   ? x
         : dtype == Dtype::Bf16 ? from_bf16(to_bf16(x))
                                : from_fp16(to_fp16(x));
}

}  // namespace

Inputs::Inputs(const Problem& problem, std::uint64_t seed, InputKind kind)
    : problem_(problem), seed_(mixed(seed + 0x9e3779b97f4a7c15)), kind_(kind) {}

void Inputs::row(Matrix matrix, std::int64_t token, std::uint32_t head,
                 std::span<float> out) const {
  const bool key = matrix == Matrix::Key;
  const bool hole =
      kind_ == InputKind::NotANumber && key && head == 0 && token == problem_.tokens.value - 1;
  if (kind_ == InputKind::Equal && key) token = 0;
  const std::uint64_t row =
      mixed(seed_ + (static_cast<std::uint64_t>(token) << 17 | std::uint64_t{head} << 2 |
                     static_cast<std::uint64_t>(matrix)));
  const float times = kind_ == InputKind::Large && (key || matrix == Matrix::Query) ? 100.0f : 1.0f;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = times * normal(mixed(row + 0x9e3779b97f4a7c15 * (i + 1)));
  for (float& x : out) x = rounded(x, problem_.dtype);
  if (hole) out[0] = std::numeric_limits<float>::quiet_NaN();
}

float Inputs::value(Matrix matrix, std::int64_t token, std::uint32_t head,
                    std::uint32_t place) const {
  std::vector<float> all(problem_.head_dim);
  row(matrix, token, head, all);
  return all[place];
}

void Inputs::fill_matrix(Matrix matrix, const Layout& layout, Region region, std::uint32_t heads,
                         std::byte* out) const {
  std::vector<float> numbers(problem_.head_dim);
  std::int64_t at = 0;
  for (const TokenRange& range : layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i)
      for (std::uint32_t h = 0; h < heads; ++h) {
        row(matrix, range.position(i), h, numbers);
        for (const float x : numbers) put_number(out, problem_.dtype, at++, x);
      }
}

void Inputs::fill(TensorKind kind, const Layout& layout, Region region,
                  std::span<std::byte> out) const {
  const TensorForm form = tensor_form(problem_, kind, layout.rows(region));
  switch (kind) {
    case TensorKind::Query:
      return fill_matrix(Matrix::Query, layout, region, problem_.heads, out.data());
    case TensorKind::OutputGradient:
      return fill_matrix(Matrix::OutputGradient, layout, region, problem_.heads, out.data());
    case TensorKind::KeyValue:
      fill_matrix(Matrix::Key, layout, region, problem_.kv_heads, out.data());
      return fill_matrix(Matrix::Value, layout, region, problem_.kv_heads, out.data() + form.at(1));
    default:
      fail("there are no input numbers for a {}", to_text(kind));
  }
}

InputKind parse_input_kind(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<InputKind>(i);
  throw Error(unknown_name("kind of inputs", text, kNames));
}

}  // namespace ringsched
