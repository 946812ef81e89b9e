// Backward attention of bf16 by products of tiles, in strips of 32 rows as in bf16_forward.hpp. The
// gradients of keys and values are kept transposed, [keys / 16][columns / 16][tile]. Then
// probabilities are the right operand, whose pairs of rows come from two rows of scores.
#pragma once

#include "bf16_pack.hpp"
#include "bf16_vectors.hpp"
#include "block_mask.hpp"

namespace ringsched::cpu {

namespace {

struct Backward {
  static constexpr std::int32_t kRows = 256;  // of a block
  static constexpr std::int32_t kKeys = 256;
  static constexpr std::int32_t kStrip = 32;
  static constexpr float kMinusInfinity = -__builtin_inff();

  const BackwardCall& call;
  std::int32_t columns;  // head_dim
  std::int32_t padded;   // head_dim, to whole tiles
  std::int32_t keys;

  Bf16* key;              // [16 keys][columns / 32][tile]
  Bf16* value;            // the same
  Bf16* key_right;        // [32 keys][columns / 16][tile]
  Bf16* query;            // [columns / 32][kRows][32]
  Bf16* output_gradient;  // the same
  Bf16* query_left;       // [32 rows][columns / 16][tile], transposed
  Bf16* output_gradient_left;
  float* scores;          // [kKeys / 16][kStrip][16], of one strip
  float* gradients;       // the same, of the probabilities
  Bf16* weight_pairs;     // [kRows / 32][kKeys / 16][tile]
  Bf16* gradient_pairs;   // the same, of the gradients of the scores
  Bf16* gradient_rows;    // [kKeys / 32][kRows][32]
  float* query_gradient;  // [columns / 16][kRows][16]
  float* key_gradient;
  float* value_gradient;
  alignas(64) float lse[kRows] = {};
  alignas(64) float delta[kRows] = {};
  QueryBlock queries = {};
  BlockMask mask = {};
  RowLoader load = {};

  std::size_t key_tile(std::int32_t at) const {
    return wide(at / kTile) * wide(padded / kChunk) * kTileElements;
  }
  // Tiles in which 32 keys or rows are k.
  std::size_t right_tile(std::int32_t at) const {
    return wide(at / kChunk) * wide(padded / kTile) * kTileElements;
  }
  std::size_t gradient_tile(std::int32_t key_at, std::int32_t column) const {
    return (wide(key_at / kTile) * wide(padded / kTile) + wide(column / kTile)) * kTileFloats;
  }
  std::int32_t begin(std::int32_t strip) const { return mask.begin[strip] / kChunk * kChunk; }
  std::int32_t end(std::int32_t strip) const { return up_to(mask.end[strip], kChunk); }
  bool any(std::int32_t strip) const { return mask.begin[strip] < mask.end[strip]; }
  std::int32_t strips() const { return up_to(queries.count, kStrip) / kStrip; }

  void pack_keys(std::uint32_t head) {
    std::size_t offsets[kChunk];
    for (std::int32_t first = 0; first < keys; first += kChunk) {
      const std::int32_t count = least(kChunk, keys - first);
      find_key_rows(call.shape, call.tile, head, first, count, offsets);
      for (std::int32_t k = 0; k < kChunk; k += kTile) {
        const std::size_t to = key_tile(first + k);
        pack_right_transposed(load, call.key, offsets + k, count - k, columns, key + to);
        pack_right_transposed(load, call.value, offsets + k, count - k, columns, value + to);
      }
      pack_right(load, call.key, offsets, count, columns, key_right + right_tile(first));
    }
  }

  void pack_queries() {
    static constexpr VisibleKeys kNone{};
    const std::int32_t rows = queries.count;
    for (std::int32_t r = 0; r < rows; ++r) {
      lse[r] = call.lse[queries.of_gradient[r]];
      delta[r] = call.delta[queries.of_gradient[r]];
      // All scores of the row are -infinity, so all probabilities are zero.
      if (lse[r] == kMinusInfinity) queries.visible[r] = &kNone;
    }
    pack_left(load, call.query, queries.in_matrix, rows, kRows, columns, 0, query);
    pack_left(load, call.output_gradient, queries.in_gradient, rows, kRows, columns, 0,
              output_gradient);
    for (std::int32_t r = 0; r < rows; r += kStrip) {
      const std::int32_t count = least(kStrip, rows - r);
      pack_left_transposed(load, call.query, queries.in_matrix + r, count, columns,
                           query_left + right_tile(r));
      pack_left_transposed(load, call.output_gradient, queries.in_gradient + r, count, columns,
                           output_gradient_left + right_tile(r));
    }
  }

  void score(const Bf16* left, const Bf16* right, std::int32_t strip, std::int32_t first,
             float* result) const {
    for (std::int32_t k = begin(strip); k < end(strip); k += kChunk)
      multiply<false>({.a = left + strip * kStrip * kChunk,
                       .a_step = wide(kRows * kChunk),
                       .a_second = kTileElements,
                       .b = right + key_tile(first + k),
                       .b_step = kTileElements,
                       .b_second = key_tile(kTile),
                       .c = result + k * kStrip,
                       .c_second_row = kTileFloats,
                       .c_second_column = wide(kStrip * kTile),
                       .steps = padded / kChunk});
  }

  void add_to_queries(std::int32_t strip, std::int32_t first) const {
    for (std::int32_t c = 0; c < padded; c += 2 * kTile)
      multiply<true>(
          {.a = gradient_rows + begin(strip) * kRows + strip * kStrip * kChunk,
           .a_step = wide(kRows * kChunk),
           .a_second = kTileElements,
           .b = key_right + right_tile(first + begin(strip)) + wide(c / kTile) * kTileElements,
           .b_step = right_tile(kChunk),
           .b_second = kTileElements,
           .c = query_gradient + c * kRows + strip * kStrip * kTile,
           .c_second_row = kTileFloats,
           .c_second_column = wide(kRows * kTile),
           .steps = (end(strip) - begin(strip)) / kChunk});
  }

  // The end of the keys of the piece that the row sees entirely: only the rest is masked.
  std::int32_t end_of_full(std::int32_t row, std::int32_t from) const {
    if (row >= queries.count) return from;
    const KeySpans& spans = mask.spans[row];
    if (spans.begin[0] > from || spans.end[0] < from) return from;
    return spans.end[0] / kChunk * kChunk;
  }

  struct Weights {
    __m512 weight, gradient;
  };

  // Of one row and 16 keys. Hidden keys, and missing rows, get zero.
  Weights weigh(std::int32_t strip, std::int32_t r, std::int32_t k, __mmask16 visible) const {
    const std::int32_t row = strip * kStrip + r;
    const std::int32_t at = k * kStrip + r * kTile;
    const __m512 score = _mm512_load_ps(scores + at);
    const __m512 less = _mm512_sub_ps(_mm512_load_ps(gradients + at), _mm512_set1_ps(delta[row]));
    const __m512 x =
        _mm512_mul_ps(_mm512_sub_ps(_mm512_mul_ps(score, _mm512_set1_ps(call.shape.scale)),
                                    _mm512_set1_ps(lse[row])),
                      _mm512_set1_ps(kLog2E));
    // A probability is at most 1; rounding of large scores could make it anything.
    const __m512 weight =
        _mm512_maskz_mov_ps(visible, exponential_of_2(_mm512_min_ps(_mm512_setzero_ps(), x)));
    return {weight, _mm512_maskz_mul_ps(visible, weight, less)};
  }

  __mmask16 visible(std::int32_t row, std::int32_t k) const {
    return row < queries.count ? seen(mask.spans[row], k) : __mmask16{0};
  }

  // Probabilities and gradients of scores for rows r and r + 1 of the strip and 32 keys.
  template <bool Masked>
  void weigh_pair(std::int32_t strip, std::int32_t r, std::int32_t k) const {
    const std::int32_t row = strip * kStrip + r;
    __m512 gradient[2][2];
    for (int half = 0; half < 2; ++half) {
      const std::int32_t at = k + half * kTile;
      __m512 weight[2];
      for (int i = 0; i < 2; ++i) {
        const Weights w =
            weigh(strip, r + i, at, Masked ? visible(row + i, at) : __mmask16{0xFFFF});
        weight[i] = w.weight;
        gradient[i][half] = w.gradient;
      }
      const std::size_t to =
          (wide(strip) * (kKeys / kTile) + wide(at / kTile)) * kTileElements + wide(r / 2 * kChunk);
      store_pairs(weight_pairs + to, weight[0], weight[1]);
      store_pairs(gradient_pairs + to, gradient[0][half], gradient[1][half]);
    }
    for (int i = 0; i < 2; ++i)
      _mm512_store_si512(
          gradient_rows + k * kRows + (row + i) * kChunk,
          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(gradient[i][1], gradient[i][0])));
  }

  static void store_pairs(Bf16* to, __m512 even, __m512 odd) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
    _mm512_store_si512(to, _mm512_permutexvar_epi16(order, both));
  }

  void weigh_rows(std::int32_t strip, std::int32_t r) const {
    const std::int32_t row = strip * kStrip + r;
    std::int32_t k = begin(strip);
    const std::int32_t full = least(end_of_full(row, k), end_of_full(row + 1, k));
    for (; k < full; k += kChunk) weigh_pair<false>(strip, r, k);
    for (; k < end(strip); k += kChunk) weigh_pair<true>(strip, r, k);
  }

  // Strips [from, to) all have weights for the keys [k, k + 32) of the block.
  void add_to_keys(std::int32_t first, std::int32_t k, std::int32_t from, std::int32_t to) {
    const std::size_t pairs = (wide(from) * (kKeys / kTile) + wide(k / kTile)) * kTileElements;
    for (std::int32_t c = 0; c < padded; c += kChunk) {
      const std::size_t left = right_tile(from * kStrip) + wide(c / kTile) * kTileElements;
      TileProduct product = {.a = output_gradient_left + left,
                             .a_step = right_tile(kChunk),
                             .a_second = kTileElements,
                             .b = weight_pairs + pairs,
                             .b_step = wide(kKeys / kTile) * kTileElements,
                             .b_second = kTileElements,
                             .c = value_gradient + gradient_tile(first + k, c),
                             .c_second_row = kTileFloats,
                             .c_second_column = gradient_tile(kTile, 0),
                             .steps = to - from};
      multiply<true>(product);
      product.a = query_left + left;
      product.b = gradient_pairs + pairs;
      product.c = key_gradient + gradient_tile(first + k, c);
      multiply<true>(product);
    }
  }

  void attend_keys(std::int32_t first) {
    for (std::int32_t strip = 0; strip < strips(); ++strip) {
      if (!any(strip)) continue;
      score(query, key, strip, first, scores);
      score(output_gradient, value, strip, first, gradients);
      for (std::int32_t r = 0; r < kStrip; r += 2) weigh_rows(strip, r);
      add_to_queries(strip, first);
    }
    for (std::int32_t k = 0; k < kKeys && first + k < keys; k += kChunk)
      for (std::int32_t from = 0; from < strips();) {
        std::int32_t to = from;
        while (to < strips() && any(to) && begin(to) <= k && k < end(to)) ++to;
        if (to > from) add_to_keys(first, k, from, to);
        from = to > from ? to : from + 1;
      }
  }

  void attend_block() {
    pack_queries();
    __builtin_memset(query_gradient, 0, wide(padded) * kRows * sizeof(float));
    for (std::int32_t first = 0; first < keys; first += kKeys) {
      find_block_mask(queries.visible, queries.count, kStrip, first, least(kKeys, keys - first),
                      mask);
      if (mask.any) attend_keys(first);
    }
    const __m512 scale = _mm512_set1_ps(call.shape.scale);
    for (std::int32_t r = 0; r < queries.count; ++r)
      for (std::int32_t c = 0; c < columns; c += kTile)
        _mm512_mask_storeu_ps(
            call.query_gradient + queries.in_tile[r] + c, first_lanes(columns - c),
            _mm512_mul_ps(scale, _mm512_load_ps(query_gradient + c * kRows + r * kTile)));
  }

  static __mmask16 first_lanes(std::int32_t count) {
    return static_cast<__mmask16>((1u << least(kTile, count)) - 1);
  }

  void write_keys(std::uint32_t head, const float* from, float factor, float* to) const {
    const __m512 times = _mm512_set1_ps(factor);
    for (std::int32_t k = 0; k < keys; k += kTile)
      for (std::int32_t c = 0; c < columns; c += kTile) {
        const float* const tile = from + gradient_tile(k, c);
        __m512i x[16];
        for (int i = 0; i < 16; ++i) x[i] = _mm512_load_si512(tile + i * kTile);
        transpose(x);
        for (std::int32_t j = 0; j < least(kTile, keys - k); ++j)
          _mm512_mask_storeu_ps(to + key_gradient_at(call.shape, wide(k + j), head) + c,
                                first_lanes(columns - c),
                                _mm512_mul_ps(times, _mm512_castsi512_ps(x[j])));
      }
  }
};

bool bf16_backward(const BackwardCall& call, Scratch::Memory& memory) {
  memory.restart();
  const Shape& shape = call.shape;
  const TileSize size = size_of(shape, call.tile);
  const auto columns = static_cast<std::int32_t>(shape.head_dim);
  const std::int32_t padded = up_to(columns, kChunk);
  const std::size_t of_keys = wide(up_to(size.keys, kChunk)) * wide(padded);
  const std::size_t of_rows = wide(Backward::kRows) * wide(padded);
  const auto tiles = [&](std::size_t elements) {
    return static_cast<Bf16*>(memory.bytes(elements * sizeof(Bf16)));
  };
  Backward b{.call = call,
             .columns = columns,
             .padded = padded,
             .keys = size.keys,
             .key = tiles(of_keys),
             .value = tiles(of_keys),
             .key_right = tiles(of_keys),
             .query = tiles(of_rows),
             .output_gradient = tiles(of_rows),
             .query_left = tiles(of_rows),
             .output_gradient_left = tiles(of_rows),
             .scores = memory.floats(wide(Backward::kStrip * Backward::kKeys)),
             .gradients = memory.floats(wide(Backward::kStrip * Backward::kKeys)),
             .weight_pairs = tiles(wide(Backward::kRows * Backward::kKeys)),
             .gradient_pairs = tiles(wide(Backward::kRows * Backward::kKeys)),
             .gradient_rows = tiles(wide(Backward::kRows * Backward::kKeys)),
             .query_gradient = memory.floats(of_rows),
             .key_gradient = memory.floats(of_keys),
             .value_gradient = memory.floats(of_keys)};
  const TileRegisters registers;
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    b.pack_keys(head);
    if (b.load.not_finite) return false;
    __builtin_memset(b.key_gradient, 0, of_keys * sizeof(float));
    __builtin_memset(b.value_gradient, 0, of_keys * sizeof(float));
    for (std::size_t first = 0; first < size.rows; first += Backward::kRows) {
      memory.between_blocks();
      const std::size_t left = size.rows - first;
      fill_query_block(shape, call.tile, head, first,
                       left < Backward::kRows ? static_cast<std::int32_t>(left) : Backward::kRows,
                       b.queries);
      b.attend_block();
    }
    b.write_keys(head, b.key_gradient, shape.scale, call.key_gradient);
    b.write_keys(head, b.value_gradient, 1, call.value_gradient);
  }
  return b.load.not_finite == 0;
}

}  // namespace
}  // namespace ringsched::cpu
