// The arithmetic of the kernels, row by row: a row is one token and head. A group of threads shares
// a row: it has `rank` and `size`, and can add up, find the largest and wait for each other. On a
// CPU the group is one thread.
#pragma once

#include <cmath>

#include "device_calls.hpp"
#include "input_numbers.hpp"
#include "numbers.hpp"

namespace ringsched::cuda {

struct Alone {
  static constexpr int rank() { return 0; }
  static constexpr int size() { return 1; }
  static constexpr int kMostElements = 256;  // of a head that one thread holds
  static float sum(float x) { return x; }
  static float max(float x) { return x; }
  static void sync() {}
};

inline constexpr std::uint32_t kMostHeadDim = 256;

// Calls eight(i) or one(i) for the share of this thread of `dim` numbers. `aligned`: the array that
// they are in begins at a multiple of 16 bytes.
template <class Group, class F, class G>
RINGSCHED_BOTH void for_share(std::uint32_t dim, const Group& group, F eight, G one,
                              bool aligned = true) {
  if (aligned && dim % 8 == 0) {
    for (std::uint32_t i = 8u * group.rank(); i < dim; i += 8u * group.size()) eight(i);
  } else {
    for (std::uint32_t i = group.rank(); i < dim; i += group.size()) one(i);
  }
}

template <class Group>
RINGSCHED_BOTH void fill_row(std::byte* to, Dtype dtype, std::int64_t at, std::uint32_t dim,
                             float x, const Group& group) {
  const Eight all{x, x, x, x, x, x, x, x};
  for_share(
      dim, group, [&](std::uint32_t i) { store_eight(to, dtype, at + i, all); },
      [&](std::uint32_t i) { store(to, dtype, at + i, x); });
}

template <class Group>
RINGSCHED_BOTH void convert_row(std::byte* to, Dtype to_type, std::int64_t to_at,
                                const std::byte* from, Dtype from_type, std::int64_t from_at,
                                std::uint32_t dim, const Group& group) {
  for_share(
      dim, group,
      [&](std::uint32_t i) {
        store_eight(to, to_type, to_at + i, load_eight(from, from_type, from_at + i));
      },
      [&](std::uint32_t i) { store(to, to_type, to_at + i, load(from, from_type, from_at + i)); });
}

RINGSCHED_BOTH inline std::int64_t rows_of(const FinishForward& s) { return s.rows * s.heads; }

template <class Group>
RINGSCHED_BOTH void row(const FinishForward& s, std::int64_t r, const Group& group) {
  const std::int64_t token = r / s.heads, head = r % s.heads, used = s.rows - s.dropped;
  const bool seen = token >= s.dropped;
  if (group.rank() == 0)
    s.lse[r] = seen ? s.stats[head * used + token - s.dropped] : minus_infinity();
  const Dtype made = s.narrow ? Dtype::Fp32 : s.dtype;
  if (!seen)
    fill_row(s.output, made, r * s.dim, s.dim, 0.0f, group);
  else if (s.narrow)
    convert_row(s.output, made, r * s.dim, s.narrow, s.dtype, (r - s.dropped * s.heads) * s.dim,
                s.dim, group);
}

RINGSCHED_BOTH inline std::int64_t rows_of(const PrepareBackward& s) { return s.rows * s.heads; }

// With g the gradient, g delta / |g|^2: its product with g is delta, and it is no longer than the
// output. Scaled by the largest of g, whose square might overflow.
template <class Group>
RINGSCHED_BOTH void row(const PrepareBackward& s, std::int64_t r, const Group& group) {
  const std::int64_t token = r / s.heads, head = r % s.heads, at = r * s.dim;
  const auto each = [&](auto f) {
    for_share(
        s.dim, group,
        [&](std::uint32_t i) {
          const Eight g = load_eight(s.output_gradient, s.dtype, at + i);
          for (int k = 0; k < 8; ++k) f(g.x[k]);
        },
        [&](std::uint32_t i) { f(load(s.output_gradient, s.dtype, at + i)); });
  };
  float largest = 0, square = 0;
  each([&](float x) { largest = fmaxf(largest, fabsf(x)); });
  largest = group.max(largest);
  if (largest > 0) each([&](float x) { square += x / largest * (x / largest); });
  square = group.sum(square);
  const float times = largest > 0 ? s.delta[r] / largest / square : 0;
  const auto projected = [&](float x) { return largest > 0 ? times * (x / largest) : 0; };
  for_share(
      s.dim, group,
      [&](std::uint32_t i) {
        Eight g = load_eight(s.output_gradient, s.dtype, at + i);
        for (float& x : g.x) x = projected(x);
        store_eight(s.output, s.dtype, at + i, g);
      },
      [&](std::uint32_t i) {
        store(s.output, s.dtype, at + i, projected(load(s.output_gradient, s.dtype, at + i)));
      });
  if (group.rank() == 0) s.stats[head * s.rows + token] = s.lse[r];
}

// How two partial results become one: the log of a sum that cannot overflow, and the share of b in
// it.
struct Merged {
  float lse, share;
};

RINGSCHED_BOTH inline Merged merged(float a, float b) {
  if (b == minus_infinity()) return {a, 0};
  if (a == minus_infinity()) return {b, 1};
  const float high = a > b ? a : b, low = a > b ? b : a;
  return {high + log1pf(expf(low - high)), 1 / (1 + expf(a - b))};
}

RINGSCHED_BOTH inline bool has(const Side& side, std::int64_t token) {
  return token >= side.first && token < side.first + side.rows;
}

RINGSCHED_BOTH inline std::int64_t rows_of(const Merge& s) { return s.rows * s.heads; }

template <class Group>
RINGSCHED_BOTH void row(const Merge& s, std::int64_t r, const Group& group) {
  const std::int64_t token = r / s.heads;
  const bool in_a = has(s.a, token), in_b = has(s.b, token);
  const std::int64_t a_row = r - s.a.first * s.heads, b_row = r - s.b.first * s.heads;
  const bool in_place = reinterpret_cast<const std::byte*>(s.output) == s.a.values;
  auto* const output = reinterpret_cast<std::byte*>(s.output);
  const float la = in_a ? s.a.lse[a_row] : minus_infinity();
  const float lb = in_b ? s.b.lse[b_row] : minus_infinity();
  const Merged m = merged(la, lb);
  group.sync();  // all have read what one of them writes
  if (in_place && lb == minus_infinity()) return;
  if (group.rank() == 0) s.lse[r] = m.lse;
  if (la == minus_infinity() && lb == minus_infinity())
    return fill_row(output, Dtype::Fp32, r * s.dim, s.dim, 0.0f, group);
  if (lb == minus_infinity())
    return convert_row(output, Dtype::Fp32, r * s.dim, s.a.values, s.a.dtype, a_row * s.dim, s.dim,
                       group);
  if (la == minus_infinity())
    return convert_row(output, Dtype::Fp32, r * s.dim, s.b.values, s.b.dtype, b_row * s.dim, s.dim,
                       group);
  for_share(
      s.dim, group,
      [&](std::uint32_t i) {
        Eight a = load_eight(s.a.values, s.a.dtype, a_row * s.dim + i);
        const Eight b = load_eight(s.b.values, s.b.dtype, b_row * s.dim + i);
        for (int k = 0; k < 8; ++k) a.x[k] += m.share * (b.x[k] - a.x[k]);
        store_eight(output, Dtype::Fp32, r * s.dim + i, a);
      },
      [&](std::uint32_t i) {
        const float a = load(s.a.values, s.a.dtype, a_row * s.dim + i);
        const float b = load(s.b.values, s.b.dtype, b_row * s.dim + i);
        s.output[r * s.dim + i] = a + m.share * (b - a);
      });
}

RINGSCHED_BOTH inline std::int64_t rows_of(const Add& s) { return s.parts * s.rows * s.heads; }

template <class Group>
RINGSCHED_BOTH void row(const Add& s, std::int64_t r, const Group& group) {
  const std::int64_t part = r / (s.rows * s.heads), at = r % (s.rows * s.heads);
  const std::int64_t token = at / s.heads;
  const bool in_a = has(s.a, token), in_b = has(s.b, token);
  const std::byte* a = s.a.values + part * s.a.part_bytes;
  const std::byte* b = s.b.values + part * s.b.part_bytes;
  std::byte* const output = s.output + part * s.part_bytes;
  const std::int64_t a_at = (at - s.a.first * s.heads) * s.dim;
  const std::int64_t b_at = (at - s.b.first * s.heads) * s.dim;
  if (in_a && !in_b && output == a) return;
  if (!in_a && !in_b) return fill_row(output, Dtype::Fp32, at * s.dim, s.dim, 0.0f, group);
  if (!in_b) return convert_row(output, Dtype::Fp32, at * s.dim, a, s.a.dtype, a_at, s.dim, group);
  if (!in_a) return convert_row(output, Dtype::Fp32, at * s.dim, b, s.b.dtype, b_at, s.dim, group);
  for_share(
      s.dim, group,
      [&](std::uint32_t i) {
        Eight x = load_eight(a, s.a.dtype, a_at + i);
        const Eight y = load_eight(b, s.b.dtype, b_at + i);
        for (int k = 0; k < 8; ++k) x.x[k] += y.x[k];
        store_eight(output, Dtype::Fp32, at * s.dim + i, x);
      },
      [&](std::uint32_t i) {
        store(output, Dtype::Fp32, at * s.dim + i,
              load(a, s.a.dtype, a_at + i) + load(b, s.b.dtype, b_at + i));
      });
}

RINGSCHED_BOTH inline std::int64_t rows_of(const Prepare& s) { return s.rows * s.heads; }

template <class Group>
RINGSCHED_BOTH void row(const Prepare& s, std::int64_t r, const Group& group) {
  const auto* output = reinterpret_cast<const std::byte*>(s.output);
  // It stands after two matrices that have one fp32 per row; the number of rows may be odd.
  const bool aligned = reinterpret_cast<std::uintptr_t>(s.copied_gradient) % 16 == 0;
  float sum = 0;
  for_share(
      s.dim, group,
      [&](std::uint32_t i) {
        const Eight o = load_eight(output, Dtype::Fp32, r * s.dim + i);
        const Eight g = load_eight(s.output_gradient, s.dtype, r * s.dim + i);
        for (int k = 0; k < 8; ++k) sum += o.x[k] * g.x[k];
        store_eight(s.copied_gradient, s.dtype, r * s.dim + i, g);
      },
      [&](std::uint32_t i) {
        const float g = load(s.output_gradient, s.dtype, r * s.dim + i);
        sum += s.output[r * s.dim + i] * g;
        store(s.copied_gradient, s.dtype, r * s.dim + i, g);
      },
      aligned);
  sum = group.sum(sum);
  if (group.rank() != 0) return;
  s.delta[r] = sum;
  s.lse[r] = s.output_lse[r];
}

RINGSCHED_BOTH inline std::int64_t rows_of(const FillInputs& s) { return s.rows * s.heads; }

template <class Group>
RINGSCHED_BOTH void row(const FillInputs& s, std::int64_t r, const Group& group) {
  const std::int64_t token = s.positions[r / s.heads];
  const auto head = static_cast<std::uint32_t>(r % s.heads);
  const std::uint64_t from = row_of_numbers(s.mixed_seed, s.all_alike ? 0 : token, head, s.matrix);
  for (std::uint32_t i = group.rank(); i < s.dim; i += group.size()) {
    const bool hole = token == s.hole_token && head == 0 && i == 0;
    store(s.output, s.dtype, r * s.dim + i,
          hole ? std::numeric_limits<float>::quiet_NaN() : s.times * number_of_row(from, i));
  }
}

inline constexpr std::int64_t kCheckedAtOnce = 1024;  // numbers

RINGSCHED_BOTH inline std::int64_t rows_of(const CheckFinite& s) {
  return (s.count + kCheckedAtOnce - 1) / kCheckedAtOnce;
}

template <class Group>
RINGSCHED_BOTH void row(const CheckFinite& s, std::int64_t r, const Group& group) {
  const std::int64_t end = (r + 1) * kCheckedAtOnce < s.count ? (r + 1) * kCheckedAtOnce : s.count;
  bool good = true;
  for (std::int64_t i = r * kCheckedAtOnce + group.rank(); i < end; i += group.size()) {
    const float x = load(s.values, s.dtype, i);
    good = good && (fabsf(x) <= std::numeric_limits<float>::max() ||
                    (s.may_be_minus_infinity && x == minus_infinity()));
  }
  if (good) return;
#if defined(__CUDA_ARCH__)
  atomicMin(s.flag, s.task);
#else
  if (s.task < *s.flag) *s.flag = s.task;
#endif
}

}  // namespace ringsched::cuda
