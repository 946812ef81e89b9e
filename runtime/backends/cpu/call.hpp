// The arguments of attend() and attend_backward(), and a view of the query rows of one key-value
// head: those of all query heads that read it, one head after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention.hpp"
#include "scratch.hpp"

namespace ringsched::cpu {

struct ForwardCall {
  const Shape& shape;
  const Tile& tile;
  const void* query;
  const void* key;
  const void* value;
  float* output;
  float* lse;
};

struct BackwardCall {
  const Shape& shape;
  const Tile& tile;
  const void* query;
  const void* key;
  const void* value;
  const void* output_gradient;
  const float* lse;
  const float* delta;
  float* query_gradient;
  float* key_gradient;
  float* value_gradient;
};

struct TileSize {
  std::int32_t keys;
  std::size_t rows;  // of one key-value head
};

TileSize size_of(const Shape&, const Tile&);

// Rows [first, first + count) of those of a key-value head.
struct QueryBlock {
  static constexpr std::int32_t kMost = 256;
  std::int32_t count;
  const VisibleKeys* visible[kMost];
  std::size_t in_matrix[kMost];    // of the first element, in `query`
  std::size_t in_gradient[kMost];  // the same, in `output_gradient`
  std::size_t in_tile[kMost];      // the same, in `output` and `query_gradient`
  std::size_t statistic[kMost];    // in the `lse` of attend()
  std::size_t of_gradient[kMost];  // in `lse` and `delta` of attend_backward()
};

void fill_query_block(const Shape&, const Tile&, std::uint32_t kv_head, std::size_t first,
                      std::int32_t count, QueryBlock&);

// Where a row of dK and dV begins for this head.
inline std::size_t key_gradient_at(const Shape& shape, std::size_t row, std::uint32_t kv_head) {
  const std::uint32_t heads =
      shape.in_row.key_gradient ? shape.in_row.key_gradient : shape.kv_heads;
  return (row * heads + kv_head) * shape.head_dim;
}

// Where keys [first, first + count) of the tile begin for this head, in `key` and `value`.
void find_key_rows(const Shape&, const Tile&, std::uint32_t kv_head, std::int32_t first,
                   std::int32_t count, std::size_t* offsets);

}  // namespace ringsched::cpu
