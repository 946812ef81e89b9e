#include "attention_oracle.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace ringsched::oracle {

namespace {

std::uint32_t bits(float x) {
  std::uint32_t b;
  std::memcpy(&b, &x, sizeof b);
  return b;
}

// To the nearest with `mantissa` bits and exponents from `lowest` on; ties to even.
double rounded(double x, int mantissa, int lowest, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 1, lowest) - mantissa);
  const double r = std::nearbyint(x / unit) * unit;
  return std::abs(r) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : r;
}

std::uint16_t half_bits(double x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  if (std::isnan(x)) return 0x7E00;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | 0x7C00);
  int exponent;
  const double fraction = std::frexp(std::abs(x), &exponent);  // [0.5, 1)
  if (x == 0 || exponent - 1 < -14)
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(std::abs(x), 24)));
  return static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) |
                                    (static_cast<int>(std::ldexp(fraction, 11)) & 0x3FF));
}

template <class T>
void append(std::vector<std::uint8_t>& to, T x) {
  const std::size_t at = to.size();
  to.resize(at + sizeof x);
  std::memcpy(to.data() + at, &x, sizeof x);
}

}  // namespace

Matrix store(cpu::Element element, const std::vector<double>& values) {
  Matrix m;
  for (const double x : values) {
    double kept = x;
    switch (element) {
      case cpu::Element::Fp32:
        kept = static_cast<float>(x);
        append(m.stored, static_cast<float>(x));
        break;
      case cpu::Element::Bf16:
        kept = rounded(x, 7, -126, 3.3895313892515355e38);
        append(m.stored, static_cast<std::uint16_t>(bits(static_cast<float>(kept)) >> 16));
        break;
      case cpu::Element::Fp16:
        kept = rounded(x, 10, -14, 65504);
        append(m.stored, half_bits(kept));
        break;
    }
    m.values.push_back(kept);
  }
  return m;
}

Result attend(const Case& c) {
  const std::size_t heads = c.shape.heads, kv_heads = c.shape.kv_heads, dim = c.shape.head_dim;
  const std::size_t rows = c.query_rows.size(), keys = c.key_rows.size();
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  Result r;
  for (auto* v : {&r.output, &r.output_size, &r.query_gradient, &r.query_gradient_size})
    v->assign(rows * heads * dim, 0);
  for (auto* v : {&r.key_gradient, &r.key_gradient_size, &r.value_gradient, &r.value_gradient_size})
    v->assign(keys * kv_heads * dim, 0);
  for (auto* v : {&r.lse, &r.lse_size, &r.delta}) v->assign(rows * heads, 0);

  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t kv = head / (heads / kv_heads);
      const std::size_t out = (i * heads + head) * dim;
      const std::size_t q = (static_cast<std::size_t>(c.query_rows[i]) * heads + head) * dim;
      std::vector<std::size_t> seen;
      for (int part = 0; part < 2; ++part)
        for (std::int32_t j = c.visible[i].begin[part]; j < c.visible[i].end[part]; ++j)
          seen.push_back(static_cast<std::size_t>(j));
      const auto key = [&](std::size_t j) {
        return (static_cast<std::size_t>(c.key_rows[j]) * kv_heads + kv) * dim;
      };

      std::vector<double> score(seen.size()), score_size(seen.size());
      double most = minus_infinity, largest_size = 0;
      bool nan = false;
      for (std::size_t s = 0; s < seen.size(); ++s) {
        for (std::size_t d = 0; d < dim; ++d) {
          const double term = c.query.values[q + d] * c.key.values[key(seen[s]) + d];
          score[s] += term * c.shape.scale;
          score_size[s] += std::abs(term * c.shape.scale);
        }
        nan |= std::isnan(score[s]);
        most = std::max(most, score[s]);
        largest_size = std::max(largest_size, score_size[s]);
      }
      double sum = 0;
      for (const double x : score) sum += most == minus_infinity && !nan ? 0 : std::exp(x - most);
      r.lse[i * heads + head] = sum == 0 ? minus_infinity : most + std::log(sum);
      r.lse_size[i * heads + head] = largest_size;
      std::vector<double> p(seen.size());
      for (std::size_t s = 0; s < seen.size(); ++s) {
        p[s] = sum == 0 ? 0 : std::exp(score[s] - most) / sum;
        // A score is off by as much as its terms are, and a probability with it.
        const double size = p[s] * (1 + largest_size);
        for (std::size_t d = 0; d < dim; ++d) {
          const double v = c.value.values[key(seen[s]) + d];
          if (sum != 0) r.output[out + d] += p[s] * v;
          r.output_size[out + d] += size * std::abs(v);
        }
      }
      if (sum == 0) continue;
      double& delta = r.delta[i * heads + head];
      double delta_size = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        delta += c.output_gradient.values[q + d] * r.output[out + d];
        delta_size += std::abs(c.output_gradient.values[q + d]) * r.output_size[out + d];
      }
      for (std::size_t s = 0; s < seen.size(); ++s) {
        const std::size_t k = key(seen[s]);
        const std::size_t to = (seen[s] * kv_heads + kv) * dim;
        double dp = 0, dp_size = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          dp += c.output_gradient.values[q + d] * c.value.values[k + d];
          dp_size += std::abs(c.output_gradient.values[q + d] * c.value.values[k + d]);
        }
        const double ds = p[s] * (dp - delta) * c.shape.scale;
        const double p_size = p[s] * (1 + largest_size);
        const double ds_size = p_size * (dp_size + delta_size) * std::abs(c.shape.scale);
        for (std::size_t d = 0; d < dim; ++d) {
          r.value_gradient[to + d] += p[s] * c.output_gradient.values[q + d];
          r.value_gradient_size[to + d] += p_size * std::abs(c.output_gradient.values[q + d]);
          r.query_gradient[out + d] += ds * c.key.values[k + d];
          r.query_gradient_size[out + d] += ds_size * std::abs(c.key.values[k + d]);
          r.key_gradient[to + d] += ds * c.query.values[q + d];
          r.key_gradient_size[to + d] += ds_size * std::abs(c.query.values[q + d]);
        }
      }
    }
  return r;
}

}  // namespace ringsched::oracle
