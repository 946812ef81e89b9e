// Our own attention for any tile, row by row as in rows.hpp, in fp32: exact, not fast. The
// library's kernels are many times as fast where they accept a shape.
#pragma once

#include "rows.hpp"

namespace ringsched::cuda {

// The share of this thread of a row of a head.
struct Share {
  std::uint32_t first, count;
};

template <class Group>
RINGSCHED_BOTH Share share_of(std::uint32_t dim, const Group& group) {
  const std::uint32_t each = (dim + group.size() - 1) / group.size();
  const std::uint32_t first = each * group.rank();
  return {first, first >= dim ? 0 : (dim - first < each ? dim - first : each)};
}

template <int kElements>
RINGSCHED_BOTH void load_share(float (&to)[kElements], const std::byte* from, Dtype dtype,
                               std::int64_t row, std::uint32_t dim, Share share) {
  for (int k = 0; k < kElements; ++k)
    to[k] = static_cast<std::uint32_t>(k) < share.count
                ? load(from, dtype, row * dim + share.first + k)
                : 0.0f;
}

template <int kElements>
RINGSCHED_BOTH void store_share(float* to, const float (&from)[kElements], std::int64_t row,
                                std::uint32_t dim, Share share) {
  for (int k = 0; k < kElements; ++k)
    if (static_cast<std::uint32_t>(k) < share.count) to[row * dim + share.first + k] = from[k];
}

template <int kElements>
RINGSCHED_BOTH float product(const float (&x)[kElements], const float (&y)[kElements]) {
  float sum = 0;
  for (int k = 0; k < kElements; ++k) sum += x[k] * y[k];
  return sum;
}

// Of a row of queries: its head of keys and values, this thread's share, and what it sees.
struct QueryRow {
  std::uint32_t kv;
  Share share;
  Seen seen;
};

template <class Group>
RINGSCHED_BOTH QueryRow query_row(const AnyTile& t, std::int64_t r, const Group& group) {
  const auto head = static_cast<std::uint32_t>(r % t.heads);
  return {head / (t.heads / t.kv_heads), share_of(t.dim, group),
          seen_by(t.mask, t.query_positions[r / t.heads])};
}

RINGSCHED_BOTH inline std::int64_t rows_of(const OwnForward& s) {
  return s.tile.rows * s.tile.heads;
}

template <class Group>
RINGSCHED_BOTH void row(const OwnForward& s, std::int64_t r, const Group& group) {
  constexpr int kElements = Group::kMostElements;
  const AnyTile& t = s.tile;
  const auto [kv, share, seen] = query_row(t, r, group);
  float query[kElements], other[kElements], output[kElements];
  load_share(query, t.query, t.dtype, r, t.dim, share);
  for (float& x : output) x = 0;
  float highest = minus_infinity(), sum = 0;
  for (std::int64_t j = 0; j < t.keys; ++j) {
    if (!seen.has(t.key_positions[j])) continue;
    const std::int64_t at = j * t.kv_heads + kv;
    load_share(other, t.key, t.dtype, at, t.dim, share);
    const float score = group.sum(product(query, other)) * t.scale;
    if (score == minus_infinity()) continue;
    if (!(score <= highest)) {  // a NaN too
      const float keeps = highest == minus_infinity() ? 0 : expf(highest - score);
      for (float& x : output) x *= keeps;
      sum *= keeps;
      highest = score;
    }
    const float weight = expf(score - highest);
    sum += weight;
    load_share(other, t.value, t.dtype, at, t.dim, share);
    for (int k = 0; k < kElements; ++k) output[k] += weight * other[k];
  }
  if (sum != 0)
    for (float& x : output) x /= sum;
  store_share(s.output, output, r, t.dim, share);
  if (group.rank() == 0) s.lse[r] = sum == 0 ? minus_infinity() : highest + logf(sum);
}

RINGSCHED_BOTH inline std::int64_t rows_of(const OwnQueryGradient& s) {
  return s.tile.rows * s.tile.heads;
}

template <class Group>
RINGSCHED_BOTH void row(const OwnQueryGradient& s, std::int64_t r, const Group& group) {
  constexpr int kElements = Group::kMostElements;
  const AnyTile& t = s.tile;
  const auto [kv, share, seen] = query_row(t, r, group);
  float query[kElements], gradient[kElements], key[kElements], value[kElements], out[kElements];
  load_share(query, t.query, t.dtype, r, t.dim, share);
  load_share(gradient, s.output_gradient, t.dtype, r, t.dim, share);
  for (float& x : out) x = 0;
  const float lse = s.lse[r], delta = s.delta[r];
  if (lse != minus_infinity())
    for (std::int64_t j = 0; j < t.keys; ++j) {
      if (!seen.has(t.key_positions[j])) continue;
      load_share(key, t.key, t.dtype, j * t.kv_heads + kv, t.dim, share);
      load_share(value, t.value, t.dtype, j * t.kv_heads + kv, t.dim, share);
      const float weight = expf(group.sum(product(query, key)) * t.scale - lse);
      const float slope = weight * (group.sum(product(gradient, value)) - delta) * t.scale;
      for (int k = 0; k < kElements; ++k) out[k] += slope * key[k];
    }
  store_share(s.query_gradient, out, r, t.dim, share);
}

RINGSCHED_BOTH inline std::int64_t rows_of(const OwnKeyValueGradient& s) {
  return s.tile.keys * s.tile.kv_heads;
}

// Of a key, over all queries that see it, in order: the sum is the same every time.
template <class Group>
RINGSCHED_BOTH void row(const OwnKeyValueGradient& s, std::int64_t r, const Group& group) {
  constexpr int kElements = Group::kMostElements;
  const AnyTile& t = s.tile;
  const std::uint32_t each = t.heads / t.kv_heads;
  const auto kv = static_cast<std::uint32_t>(r % t.kv_heads);
  const std::int64_t position = t.key_positions[r / t.kv_heads];
  const Share share = share_of(t.dim, group);
  float key[kElements], value[kElements], query[kElements], gradient[kElements];
  float key_out[kElements], value_out[kElements];
  load_share(key, t.key, t.dtype, r, t.dim, share);
  load_share(value, t.value, t.dtype, r, t.dim, share);
  for (float& x : key_out) x = 0;
  for (float& x : value_out) x = 0;
  for (std::int64_t i = 0; i < t.rows; ++i) {
    if (!seen_by(t.mask, t.query_positions[i]).has(position)) continue;
    for (std::uint32_t head = kv * each; head < (kv + 1) * each; ++head) {
      const std::int64_t at = i * t.heads + head;
      const float lse = s.lse[at];
      if (lse == minus_infinity()) continue;
      load_share(query, t.query, t.dtype, at, t.dim, share);
      load_share(gradient, s.output_gradient, t.dtype, at, t.dim, share);
      const float weight = expf(group.sum(product(query, key)) * t.scale - lse);
      const float slope = weight * (group.sum(product(gradient, value)) - s.delta[at]) * t.scale;
      for (int k = 0; k < kElements; ++k) {
        key_out[k] += slope * query[k];
        value_out[k] += weight * gradient[k];
      }
    }
  }
  store_share(s.key_gradient, key_out, r, t.dim, share);
  store_share(s.value_gradient, value_out, r, t.dim, share);
}

}  // namespace ringsched::cuda
