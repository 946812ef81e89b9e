// Forward attention in blocks (FlashAttention-2): scores of a block of queries and a block of keys
// stay in the first caches, and rows carry a running maximum and sum from block to block.
#include <algorithm>
#include <cmath>
#include <limits>

#include "block_mask.hpp"
#include "drivers.hpp"

namespace ringsched::cpu {

namespace {

struct Forward {
  const Kernels& kernels;
  const ForwardCall& call;
  std::int32_t columns;  // head_dim
  std::int32_t width;
  std::int32_t panels;  // of a row of head_dim elements
  std::int32_t keys;
  bool finite_values = true;  // or hidden ones must not even be multiplied with zero

  float* key = nullptr;    // [key panel][head_dim][width], transposed
  float* value = nullptr;  // [panel][key][width]
  float* rows = nullptr;   // [panel][width rows][width], on the way to `key`
  float* query = nullptr;  // [panel][kBlockRows][width]
  float* output = nullptr;
  float* scores = nullptr;  // [key panel][kBlockRows][width]
  float* sums = nullptr;    // [row][lanes]
  float maximum[kBlockRows] = {};
  float rescale[kBlockRows] = {};
  QueryBlock queries = {};
  BlockMask mask = {};

  std::size_t block_panel() const { return std::size_t{kBlockRows} * static_cast<unsigned>(width); }
  std::size_t value_panel() const {
    return static_cast<std::size_t>(keys) * static_cast<unsigned>(width);
  }

  void pack_keys(std::uint32_t head) {
    const Shape& shape = call.shape;
    const std::size_t panel = static_cast<std::size_t>(width) * static_cast<unsigned>(width);
    const std::size_t transposed = static_cast<std::size_t>(width) * shape.head_dim;
    std::size_t offsets[64];
    finite_values = true;
    for (std::int32_t first = 0; first < keys; first += width) {
      const std::int32_t count = std::min(width, keys - first);
      find_key_rows(shape, call.tile, head, first, count, offsets);
      kernels.pack(shape.element, call.key, offsets, count, columns, 1, rows, panel);
      kernels.transpose(rows, panel, count, columns,
                        key + static_cast<std::size_t>(first / width) * transposed);
      finite_values &= kernels.pack(shape.element, call.value, offsets, count, columns, 1,
                                    value + first * width, value_panel());
    }
  }

  // Scores of the row groups that see something of the block, panel after panel of its keys.
  void score(std::int32_t first, std::int32_t count) {
    const std::size_t transposed = static_cast<std::size_t>(width) * call.shape.head_dim;
    const std::int32_t rows_here = queries.count;
    for (std::int32_t k = 0; k < count; k += width) {
      Product product = {.a = query,
                         .a_panel = block_panel(),
                         .b = key + static_cast<std::size_t>((first + k) / width) * transposed,
                         .c = scores + static_cast<std::size_t>(k / width) * block_panel(),
                         .rows = rows_here,
                         .k0 = 0,
                         .k1 = columns,
                         .columns = std::min(width, count - k),
                         .into = Into::Overwrite,
                         .rescale = nullptr};
      if (mask.full) {
        kernels.multiply(product);
        continue;
      }
      for (std::int32_t group = 0; group * kRowGroup < rows_here;) {
        const std::int32_t from = group * kRowGroup;
        while (group * kRowGroup < rows_here && sees(mask, group, k, k + width)) ++group;
        Product some = product;
        some.a += from * width;
        some.c += from * width;
        some.rows = std::min(group * kRowGroup, rows_here) - from;
        if (some.rows > 0) kernels.multiply(some);
        if (group * kRowGroup == from) ++group;
      }
    }
  }

  void exponentiate(std::int32_t count) {
    ScoreRows rows_here = {.scores = scores,
                           .panel = block_panel(),
                           .rows = queries.count,
                           .k0 = 0,
                           .k1 = count,
                           .spans = nullptr};
    if (mask.full && count % kernels.lanes == 0)
      return kernels.exponentials(rows_here, maximum, sums, rescale);
    for (std::int32_t group = 0; group * kRowGroup < queries.count; ++group) {
      const std::int32_t from = group * kRowGroup;
      ScoreRows some = rows_here;
      some.scores += from * width;
      some.rows = std::min(kRowGroup, queries.count - from);
      some.k0 = mask.begin[group];
      some.k1 = mask.end[group];
      some.spans = mask.spans + from;
      kernels.exponentials(some, maximum + from, sums + from * kernels.lanes, rescale + from);
    }
  }

  void add_values(std::int32_t first, std::int32_t count) {
    for (std::int32_t p = 0; p < panels; ++p) {
      Product product = {.a = scores,
                         .a_panel = block_panel(),
                         .b = value + static_cast<std::size_t>(p) * value_panel() + first * width,
                         .c = output + static_cast<std::size_t>(p) * block_panel(),
                         .rows = queries.count,
                         .k0 = 0,
                         .k1 = count,
                         .columns = std::min(width, columns - p * width),
                         .into = Into::Rescale,
                         .rescale = rescale};
      if (mask.full) {
        kernels.multiply(product);
        continue;
      }
      const std::int32_t together = finite_values ? kRowGroup : 1;
      for (std::int32_t row = 0; row < queries.count; row += together) {
        Product some = product;
        some.a += row * width;
        some.c += row * width;
        some.rescale += row;
        some.rows = std::min(together, queries.count - row);
        if (finite_values) {
          some.k0 = mask.begin[row / kRowGroup];
          some.k1 = mask.end[row / kRowGroup];
          kernels.multiply(some);
          continue;
        }
        for (int i = 0; i < 2; ++i) {
          some.k0 = mask.spans[row].begin[i];
          some.k1 = std::max(some.k0, mask.spans[row].end[i]);
          kernels.multiply(some);
          some.into = Into::Add;
        }
      }
    }
  }

  void finish() {
    float factors[kBlockRows];
    for (std::int32_t row = 0; row < queries.count; ++row) {
      float sum = 0;
      for (std::int32_t i = 0; i < kernels.lanes; ++i) sum += sums[row * kernels.lanes + i];
      // Nothing visible, or only scores of -infinity. NaN is not equal to zero.
      const bool empty = sum == 0;
      factors[row] = empty ? 0 : 1 / sum;
      call.lse[queries.statistic[row]] =
          empty ? -std::numeric_limits<float>::infinity() : maximum[row] + std::log(sum);
    }
    kernels.unpack(output, block_panel(), factors, call.output, queries.in_tile, queries.count,
                   columns);
  }

  void attend_block() {
    kernels.pack(call.shape.element, call.query, queries.in_matrix, queries.count, columns,
                 call.shape.scale, query, block_panel());
    std::fill_n(maximum, kBlockRows, -std::numeric_limits<float>::infinity());
    std::fill_n(sums, kBlockRows * kernels.lanes, 0.0f);
    std::fill_n(output, static_cast<std::size_t>(panels) * block_panel(), 0.0f);
    for (std::int32_t first = 0; first < keys; first += kBlockKeys) {
      const std::int32_t count = std::min(kBlockKeys, keys - first);
      find_block_mask(queries.visible, queries.count, kRowGroup, first, count, mask);
      if (!mask.any) continue;
      score(first, count);
      exponentiate(count);
      add_values(first, count);
    }
    finish();
  }
};

}  // namespace

void forward(const Kernels& kernels, const ForwardCall& call, Scratch::Memory& memory) {
  memory.restart();
  const Shape& shape = call.shape;
  const std::int32_t width = kernels.width;
  Forward f{.kernels = kernels,
            .call = call,
            .columns = static_cast<std::int32_t>(shape.head_dim),
            .width = width,
            .panels = (static_cast<std::int32_t>(shape.head_dim) + width - 1) / width,
            .keys = static_cast<std::int32_t>(call.tile.key_rows.size())};
  const auto wide = static_cast<std::size_t>(width);
  const auto panels = static_cast<std::size_t>(f.panels);
  const std::size_t key_panels = (call.tile.key_rows.size() + wide - 1) / wide;
  f.key = memory.floats(key_panels * wide * shape.head_dim);
  f.value = memory.floats(panels * f.value_panel());
  f.rows = memory.floats(panels * wide * wide);
  f.query = memory.floats(panels * f.block_panel());
  f.output = memory.floats(panels * f.block_panel());
  f.scores = memory.floats(std::size_t{kBlockRows} * kBlockKeys);
  f.sums = memory.floats(std::size_t{kBlockRows} * static_cast<unsigned>(kernels.lanes));

  const std::size_t rows = call.tile.query_rows.size() * (shape.heads / shape.kv_heads);
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    f.pack_keys(head);
    for (std::size_t first = 0; first < rows; first += kBlockRows) {
      memory.between_blocks();
      fill_query_block(shape, call.tile, head, first,
                       static_cast<std::int32_t>(std::min<std::size_t>(kBlockRows, rows - first)),
                       f.queries);
      f.attend_block();
    }
  }
}

}  // namespace ringsched::cpu
