// Forward attention of bf16 by products of tiles (bf16_multiply_*.hpp), 32 rows (a strip) and one
// block of keys at a time.
#pragma once

#include "bf16_pack.hpp"
#include "bf16_vectors.hpp"
#include "block_mask.hpp"

namespace ringsched::cpu {

namespace {

// A strip and what it sees of a block of keys; both ends are multiples of kChunk.
struct Piece {
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t first_key;  // of the block
  std::int32_t begin, end;
  const KeySpans* spans;  // of the first row
};

struct Forward {
  static constexpr std::int32_t kRows = 128;  // of a block: they share the keys in the second cache
  static constexpr std::int32_t kKeys = 256;  // of a block
  static constexpr std::int32_t kStrip = 32;
  static constexpr float kMinusInfinity = -__builtin_inff();

  const ForwardCall& call;
  std::int32_t columns;  // head_dim
  std::int32_t padded;   // head_dim, to whole tiles
  std::int32_t keys;
  float log2_scale;  // magnitude of the scale, of scores whose exponential is one of 2

  Bf16* key;                              // [16 keys][columns / 32][tile]
  Bf16* value;                            // [32 keys][columns / 16][tile]
  Bf16* query;                            // [columns / 32][kRows][32]
  float* output;                          // [columns / 16][kRows][16]
  float* scores;                          // two pieces
  Bf16* weights;                          // two pieces
  alignas(64) float maximum[kRows] = {};  // of the scores before they are scaled
  alignas(64) float sums[kRows][kTile] = {};
  alignas(64) float rescale[kStrip] = {};
  RowLoader load = {};
  QueryBlock queries = {};
  BlockMask mask = {};

  std::size_t key_tile(std::int32_t at) const {
    return wide(at / kTile) * wide(padded / kChunk) * kTileElements;
  }
  std::size_t value_tile(std::int32_t at) const {
    return wide(at / kChunk) * wide(padded / kTile) * kTileElements;
  }

  void pack_keys(std::uint32_t head) {
    std::size_t offsets[kChunk];
    for (std::int32_t first = 0; first < keys; first += kChunk) {
      const std::int32_t count = least(kChunk, keys - first);
      find_key_rows(call.shape, call.tile, head, first, count, offsets);
      for (std::int32_t k = 0; k < kChunk; k += kTile)
        pack_right_transposed(load, call.key, offsets + k, count - k, columns,
                              key + key_tile(first + k));
      pack_right(load, call.value, offsets, count, columns, value + value_tile(first));
    }
  }

  void score(const Piece& p) const {
    for (std::int32_t k = p.begin; k < p.end; k += kChunk)
      multiply<false>({.a = query + p.first_row * kChunk,
                       .a_step = wide(kRows * kChunk),
                       .a_second = kTileElements,
                       .b = key + key_tile(p.first_key + k),
                       .b_step = kTileElements,
                       .b_second = key_tile(kTile),
                       .c = scores + k * kStrip,
                       .c_second_row = kTileFloats,
                       .c_second_column = wide(kStrip * kTile),
                       .steps = padded / kChunk});
  }

  void add_values(const Piece& p) const {
    for (std::int32_t c = 0; c < padded; c += 2 * kTile)
      multiply<true>(
          {.a = weights + p.begin * kStrip,
           .a_step = wide(kStrip * kChunk),
           .a_second = kTileElements,
           .b = value + value_tile(p.first_key + p.begin) + wide(c / kTile) * kTileElements,
           .b_step = value_tile(kChunk),
           .b_second = kTileElements,
           .c = output + c * kRows + p.first_row * kTile,
           .c_second_row = kTileFloats,
           .c_second_column = wide(kRows * kTile),
           .steps = (p.end - p.begin) / kChunk});
  }

  // The end of the keys of the piece that the row sees entirely: only the rest is masked.
  static std::int32_t end_of_full(const Piece& p, std::int32_t r) {
    const KeySpans& spans = p.spans[r];
    if (spans.begin[0] > p.begin || spans.end[0] < p.begin) return p.begin;
    return spans.end[0] / kChunk * kChunk;
  }

  __m512 masked(const Piece& p, std::int32_t r, std::int32_t k) const {
    return _mm512_mask_load_ps(_mm512_set1_ps(kMinusInfinity), seen(p.spans[r], k),
                               scores + k * kStrip + r * kTile);
  }

  void find_maxima(const Piece& p) {
    alignas(64) float before[kStrip];
    for (std::int32_t r = 0; r < p.rows; ++r) {
      const __m512 none = _mm512_set1_ps(kMinusInfinity);
      __m512 most[2] = {none, none};
      const std::int32_t full = end_of_full(p, r);
      std::int32_t k = p.begin;
      for (; k < full; k += kChunk) {
        const float* const from = scores + k * kStrip + r * kTile;
        most[0] = _mm512_max_ps(_mm512_load_ps(from), most[0]);
        most[1] = _mm512_max_ps(_mm512_load_ps(from + kStrip * kTile), most[1]);
      }
      for (; k < p.end; k += kTile) most[0] = _mm512_max_ps(masked(p, r, k), most[0]);
      before[r] = maximum[p.first_row + r];
      const float here = _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]));
      maximum[p.first_row + r] = here > before[r] ? here : before[r];
    }
    for (std::int32_t r = p.rows; r < kStrip; ++r) before[r] = 0;
    for (std::int32_t r = 0; r < kStrip; r += kTile) {
      // -infinity less -infinity, if nothing is visible yet, must not become NaN.
      const __m512 now = _mm512_load_ps(maximum + p.first_row + r);
      const __mmask16 some = _mm512_cmpneq_ps_mask(now, _mm512_set1_ps(kMinusInfinity));
      const __m512 change =
          _mm512_sub_ps(_mm512_load_ps(before + r), _mm512_maskz_mov_ps(some, now));
      _mm512_store_ps(rescale + r,
                      exponential_of_2(_mm512_mul_ps(change, _mm512_set1_ps(log2_scale))));
    }
  }

  void exponentiate(const Piece& p, std::int32_t r) {
    const float most = maximum[p.first_row + r];
    const __m512 less = _mm512_set1_ps(most == kMinusInfinity ? 0 : most);
    const __m512 scale = _mm512_set1_ps(log2_scale);
    const auto weight = [&](__m512 x) {
      return exponential_of_2(_mm512_mul_ps(_mm512_sub_ps(x, less), scale));
    };
    float* const sum = sums[p.first_row + r];
    __m512 total[2] = {_mm512_mul_ps(_mm512_load_ps(sum), _mm512_set1_ps(rescale[r])),
                       _mm512_setzero_ps()};
    const auto keep = [&](std::int32_t k, __m512 low, __m512 high) {
      total[0] = _mm512_add_ps(total[0], low);
      total[1] = _mm512_add_ps(total[1], high);
      _mm512_store_si512(weights + k * kStrip + r * kChunk,
                         reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    };
    const std::int32_t full = end_of_full(p, r);
    std::int32_t k = p.begin;
    for (; k < full; k += kChunk) {
      const float* const from = scores + k * kStrip + r * kTile;
      keep(k, weight(_mm512_load_ps(from)), weight(_mm512_load_ps(from + kStrip * kTile)));
    }
    for (; k < p.end; k += kChunk)
      keep(k, weight(masked(p, r, k)), weight(masked(p, r, k + kTile)));
    _mm512_store_ps(sum, _mm512_add_ps(total[0], total[1]));
  }

  // Most rows find their largest score early: only the others are updated.
  void rescale_output(const Piece& p) {
    for (std::int32_t half = 0; half < p.rows; half += kTile) {
      unsigned changed = _mm512_cmpneq_ps_mask(_mm512_load_ps(rescale + half), _mm512_set1_ps(1));
      for (; changed != 0; changed &= changed - 1) {
        const std::int32_t r = half + __builtin_ctz(changed);
        const __m512 factor = _mm512_set1_ps(rescale[r]);
        float* const row = output + (p.first_row + r) * kTile;
        for (std::int32_t c = 0; c < padded; c += kTile)
          _mm512_store_ps(row + c * kRows, _mm512_mul_ps(_mm512_load_ps(row + c * kRows), factor));
      }
    }
  }

  void finish() {
    for (std::int32_t r = 0; r < queries.count; ++r) {
      const float sum = _mm512_reduce_add_ps(_mm512_load_ps(sums[r]));
      // Nothing visible, or only scores of -infinity. NaN is not equal to zero.
      const bool empty = sum == 0;
      const float scale = __builtin_fabsf(call.shape.scale);
      call.lse[queries.statistic[r]] =
          empty ? kMinusInfinity : maximum[r] * scale + __builtin_logf(sum);
      const __m512 factor = _mm512_set1_ps(empty ? 0 : 1 / sum);
      float* const to = call.output + queries.in_tile[r];
      for (std::int32_t c = 0; c < columns; c += kTile) {
        const auto live = static_cast<__mmask16>((1u << least(kTile, columns - c)) - 1);
        _mm512_mask_storeu_ps(
            to + c, live, _mm512_mul_ps(factor, _mm512_load_ps(output + c * kRows + r * kTile)));
      }
    }
  }

  void attend_block() {
    pack_left(load, call.query, queries.in_matrix, queries.count, kRows, columns,
              call.shape.scale < 0 ? 0x8000 : 0, query);
    for (float& x : maximum) x = kMinusInfinity;
    __builtin_memset(sums, 0, sizeof sums);
    __builtin_memset(output, 0, wide(padded) * kRows * sizeof(float));
    for (std::int32_t first = 0; first < keys; first += kKeys) {
      find_block_mask(queries.visible, queries.count, kStrip, first, least(kKeys, keys - first),
                      mask);
      for (std::int32_t strip = 0; strip * kStrip < queries.count; ++strip) {
        if (mask.begin[strip] >= mask.end[strip]) continue;
        const Piece piece = {.first_row = strip * kStrip,
                             .rows = least(kStrip, queries.count - strip * kStrip),
                             .first_key = first,
                             .begin = mask.begin[strip] / kChunk * kChunk,
                             .end = up_to(mask.end[strip], kChunk),
                             .spans = mask.spans + strip * kStrip};
        score(piece);
        find_maxima(piece);
        for (std::int32_t r = 0; r < piece.rows; ++r) exponentiate(piece, r);
        rescale_output(piece);
        add_values(piece);
      }
    }
    finish();
  }
};

bool bf16_forward(const ForwardCall& call, Scratch::Memory& memory) {
  memory.restart();
  const Shape& shape = call.shape;
  const TileSize size = size_of(shape, call.tile);
  const auto columns = static_cast<std::int32_t>(shape.head_dim);
  const std::int32_t padded = up_to(columns, kChunk);
  const std::size_t matrix = wide(up_to(size.keys, kChunk)) * wide(padded) * sizeof(Bf16);
  const auto tiles = [&](std::size_t bytes) { return static_cast<Bf16*>(memory.bytes(bytes)); };
  Forward f{.call = call,
            .columns = columns,
            .padded = padded,
            .keys = size.keys,
            .log2_scale = __builtin_fabsf(shape.scale) * kLog2E,
            .key = tiles(matrix),
            .value = tiles(matrix),
            .query = tiles(wide(Forward::kRows) * wide(padded) * sizeof(Bf16)),
            .output = memory.floats(wide(Forward::kRows) * wide(padded)),
            .scores = memory.floats(wide(Forward::kStrip * Forward::kKeys)),
            .weights = tiles(wide(Forward::kStrip * Forward::kKeys) * sizeof(Bf16))};
  const TileRegisters registers;
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    f.pack_keys(head);
    if (f.load.not_finite) return false;
    for (std::size_t first = 0; first < size.rows; first += Forward::kRows) {
      memory.between_blocks();
      const std::size_t left = size.rows - first;
      fill_query_block(shape, call.tile, head, first,
                       left < Forward::kRows ? static_cast<std::int32_t>(left) : Forward::kRows,
                       f.queries);
      f.attend_block();
    }
  }
  return f.load.not_finite == 0;
}

}  // namespace
}  // namespace ringsched::cpu
