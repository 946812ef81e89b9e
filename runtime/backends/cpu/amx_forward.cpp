// Forward attention of bf16 with tile registers. Blocks of queries and keys as in forward.cpp, but
// 32 rows at a time go through scores, exponentials and values while they are in the first cache.
#include "amx.hpp"
#include "amx_pack.hpp"
#include "amx_tiles.hpp"
#include "block_mask.hpp"

namespace ringsched::cpu {

namespace {

constexpr std::int32_t kRows = 128;  // of a block: they share the keys in the second cache
constexpr std::int32_t kKeys = 256;  // of a block
constexpr std::int32_t kStrip = 32;  // rows computed together
constexpr float kMinusInfinity = -__builtin_inff();

enum Buffer : int { kKeyTiles, kValueTiles, kQueries, kOutput, kScores, kProbabilities };

struct Forward {
  const ForwardCall& call;
  std::int32_t columns;  // head_dim
  std::int32_t padded;   // head_dim, to whole tiles
  std::int32_t keys;
  float log2_scale;  // magnitude of the scale, of scores whose exponential is one of 2

  Bf16* key;                  // [16 keys][columns / 32][tile]
  Bf16* value;                // [32 keys][columns / 16][tile]
  Bf16* query;                // [columns / 32][kRows][32]
  float* output;              // [columns / 16][kRows][16]
  float* scores;              // [kKeys / 16][kStrip][16]
  Bf16* weights;              // [kKeys / 32][kStrip][32]
  float maximum[kRows] = {};  // of the scores before they are scaled
  float sum[kRows] = {};
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
        pack_right_transposed(call.key, offsets + k, count - k, columns, key + key_tile(first + k));
      pack_right(call.value, offsets, count, columns, value + value_tile(first));
    }
  }

  // Scores of a strip for the keys [begin, end) of the block that begins at `first`.
  void score(std::int32_t strip, std::int32_t first, std::int32_t begin, std::int32_t end) {
    for (std::int32_t k = begin; k < end; k += kChunk)
      multiply<false>({.a = query + strip * kStrip * kChunk,
                       .a_step = wide(kRows * kChunk),
                       .a_second = kTileElements,
                       .b = key + key_tile(first + k),
                       .b_step = kTileElements,
                       .b_second = key_tile(kTile),
                       .c = scores + k * kStrip,
                       .c_second_row = kTileFloats,
                       .c_second_column = wide(kStrip * kTile),
                       .steps = padded / kChunk});
  }

  template <bool Masked>
  void exponentiate(std::int32_t strip, std::int32_t begin, std::int32_t end) {
    const std::int32_t first_row = strip * kStrip;
    const __m512 scale = _mm512_set1_ps(log2_scale);
    const __m512 hidden = _mm512_set1_ps(kMinusInfinity);
    for (std::int32_t r = 0; r < least(kStrip, queries.count - first_row); ++r) {
      const KeySpans& spans = mask.spans[first_row + r];
      const auto score_at = [&](std::int32_t k) {
        const float* const from = scores + k * kStrip + r * kTile;
        if constexpr (Masked)
          return _mm512_mask_load_ps(hidden, seen(spans, k), from);
        else
          return _mm512_load_ps(from);
      };
      __m512 most[2] = {hidden, hidden};
      for (std::int32_t k = begin; k < end; k += kChunk) {
        most[0] = _mm512_max_ps(score_at(k), most[0]);
        most[1] = _mm512_max_ps(score_at(k + kTile), most[1]);
      }
      const float here = _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]));
      float& running = maximum[first_row + r];
      const float before = running;
      if (here > before) running = here;
      const float from = running == kMinusInfinity ? 0 : running;
      const __m512 less = _mm512_set1_ps(from);
      __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      for (std::int32_t k = begin; k < end; k += kChunk) {
        const auto weight = [&](std::int32_t at) {
          return exponential_of_2(_mm512_mul_ps(_mm512_sub_ps(score_at(at), less), scale));
        };
        const __m512 low = weight(k), high = weight(k + kTile);
        total[0] = _mm512_add_ps(total[0], low);
        total[1] = _mm512_add_ps(total[1], high);
        _mm512_store_si512(weights + k * kStrip + r * kChunk,
                           reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
      }
      float& all = sum[first_row + r];
      const float added = _mm512_reduce_add_ps(_mm512_add_ps(total[0], total[1]));
      if (before == running) {
        all += added;
        continue;
      }
      const __m512 rescale = exponential_of_2(_mm512_set1_ps((before - from) * log2_scale));
      all = all * _mm512_cvtss_f32(rescale) + added;
      for (std::int32_t c = 0; c < padded; c += kTile) {
        float* const old = output + c * kRows + (first_row + r) * kTile;
        _mm512_store_ps(old, _mm512_mul_ps(_mm512_load_ps(old), rescale));
      }
    }
  }

  void add_values(std::int32_t strip, std::int32_t first, std::int32_t begin, std::int32_t end) {
    for (std::int32_t c = 0; c < padded; c += 2 * kTile)
      multiply<true>({.a = weights + begin * kStrip,
                      .a_step = wide(kStrip * kChunk),
                      .a_second = kTileElements,
                      .b = value + value_tile(first + begin) + wide(c / kTile) * kTileElements,
                      .b_step = value_tile(kChunk),
                      .b_second = kTileElements,
                      .c = output + c * kRows + strip * kStrip * kTile,
                      .c_second_row = kTileFloats,
                      .c_second_column = wide(kRows * kTile),
                      .steps = (end - begin) / kChunk});
  }

  void finish() {
    for (std::int32_t r = 0; r < queries.count; ++r) {
      // Nothing visible, or nothing but scores of -infinity. NaN is not equal to zero.
      const bool empty = sum[r] == 0;
      const float scale = __builtin_fabsf(call.shape.scale);
      call.lse[queries.statistic[r]] =
          empty ? kMinusInfinity : maximum[r] * scale + __builtin_logf(sum[r]);
      const __m512 factor = _mm512_set1_ps(empty ? 0 : 1 / sum[r]);
      float* const to = call.output + queries.in_tile[r];
      for (std::int32_t c = 0; c < columns; c += kTile) {
        const auto live = static_cast<__mmask16>((1u << least(kTile, columns - c)) - 1);
        _mm512_mask_storeu_ps(
            to + c, live, _mm512_mul_ps(factor, _mm512_load_ps(output + c * kRows + r * kTile)));
      }
    }
  }

  void attend_block() {
    pack_left(call.query, queries.in_matrix, queries.count, kRows, columns,
              call.shape.scale < 0 ? 0x8000 : 0, query);
    for (std::int32_t r = 0; r < kRows; ++r) {
      maximum[r] = kMinusInfinity;
      sum[r] = 0;
    }
    __builtin_memset(output, 0, wide(padded) * kRows * sizeof(float));
    for (std::int32_t first = 0; first < keys; first += kKeys) {
      const std::int32_t count = least(kKeys, keys - first);
      find_block_mask(queries.visible, queries.count, kStrip, first, count, mask);
      if (!mask.any) continue;
      const bool masked = !mask.full || count % kChunk != 0;
      for (std::int32_t strip = 0; strip * kStrip < queries.count; ++strip) {
        const std::int32_t begin = mask.begin[strip] / kChunk * kChunk;
        const std::int32_t end = up_to(mask.end[strip], kChunk);
        if (begin >= mask.end[strip]) continue;
        score(strip, first, begin, end);
        if (masked)
          exponentiate<true>(strip, begin, end);
        else
          exponentiate<false>(strip, begin, end);
        add_values(strip, first, begin, end);
      }
    }
    finish();
  }
};

}  // namespace

void amx_forward(const ForwardCall& call, Scratch::Memory& memory) {
  const Shape& shape = call.shape;
  const TileSize size = size_of(shape, call.tile);
  const auto columns = static_cast<std::int32_t>(shape.head_dim);
  const std::int32_t padded = up_to(columns, kChunk);
  const std::size_t matrix = wide(up_to(size.keys, kChunk)) * wide(padded) * sizeof(Bf16);
  const auto tiles = [&](int buffer, std::size_t bytes) {
    return static_cast<Bf16*>(memory.bytes(buffer, bytes));
  };
  Forward f{.call = call,
            .columns = columns,
            .padded = padded,
            .keys = size.keys,
            .log2_scale = __builtin_fabsf(shape.scale) * kLog2E,
            .key = tiles(kKeyTiles, matrix),
            .value = tiles(kValueTiles, matrix),
            .query = tiles(kQueries, wide(kRows) * wide(padded) * sizeof(Bf16)),
            .output = memory.floats(kOutput, wide(kRows) * wide(padded)),
            .scores = memory.floats(kScores, wide(kStrip) * kKeys),
            .weights = tiles(kProbabilities, wide(kStrip) * kKeys * sizeof(Bf16))};
  const TileRegisters registers;
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    f.pack_keys(head);
    for (std::size_t first = 0; first < size.rows; first += kRows) {
      const std::size_t left = size.rows - first;
      fill_query_block(shape, call.tile, head, first,
                       left < kRows ? static_cast<std::int32_t>(left) : kRows, f.queries);
      f.attend_block();
    }
  }
}

}  // namespace ringsched::cpu
