#include "call.hpp"

namespace ringsched::cpu {

TileSize size_of(const Shape& shape, const Tile& tile) {
  return {.keys = static_cast<std::int32_t>(tile.key_rows.size()),
          .rows = tile.query_rows.size() * (shape.heads / shape.kv_heads)};
}

void fill_query_block(const Shape& shape, const Tile& tile, std::uint32_t kv_head,
                      std::size_t first, std::int32_t count, QueryBlock& block) {
  const std::size_t rows = tile.query_rows.size();
  const std::size_t first_head = std::size_t{kv_head} * (shape.heads / shape.kv_heads);
  const auto heads_in = [&](std::uint32_t row) { return std::size_t{row ? row : shape.heads}; };
  const std::size_t of_query = heads_in(shape.in_row.query),
                    of_output = heads_in(shape.in_row.output),
                    of_gradient = heads_in(shape.in_row.output_gradient);
  block.count = count;
  for (std::int32_t r = 0; r < count; ++r) {
    const std::size_t at = first + static_cast<std::size_t>(r);
    const std::size_t head = first_head + at / rows;
    const std::size_t row = at % rows;
    const auto from = static_cast<std::size_t>(tile.query_rows[row]);
    block.visible[r] = &tile.visible[row];
    block.in_matrix[r] = (from * of_query + head) * shape.head_dim;
    block.in_gradient[r] = (from * of_gradient + head) * shape.head_dim;
    block.in_tile[r] = (row * of_output + head) * shape.head_dim;
    block.statistic[r] = row * of_output + head;
    block.of_gradient[r] = row * of_gradient + head;
  }
}

void find_key_rows(const Shape& shape, const Tile& tile, std::uint32_t kv_head, std::int32_t first,
                   std::int32_t count, std::size_t* offsets) {
  const auto rows = tile.key_rows.subspan(static_cast<std::size_t>(first));
  const std::size_t heads = shape.in_row.key ? shape.in_row.key : shape.kv_heads;
  for (std::int32_t j = 0; j < count; ++j) {
    const auto row = static_cast<std::size_t>(rows[static_cast<std::size_t>(j)]);
    offsets[j] = (row * heads + kv_head) * shape.head_dim;
  }
}

}  // namespace ringsched::cpu
