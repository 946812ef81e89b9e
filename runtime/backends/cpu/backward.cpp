// Backward attention in blocks (FlashAttention-2): probabilities are computed again from the scores
// and the log-sum-exp of their row. Keys and their gradients are ready for all blocks of queries.
#include <algorithm>
#include <limits>

#include "block_mask.hpp"
#include "drivers.hpp"

namespace ringsched::cpu {

namespace {

struct Backward {
  const Kernels& kernels;
  const BackwardCall& call;
  std::int32_t columns;  // head_dim
  std::int32_t width;
  std::int32_t panels;  // of a row of head_dim elements
  std::int32_t keys;
  bool finite_keys = true;
  bool finite = true;  // keys, and the block's queries and output gradient

  float* key = nullptr;       // [key panel][head_dim][width], transposed
  float* value = nullptr;     // the same
  float* key_rows = nullptr;  // [panel][key][width]
  float* rows = nullptr;      // [panel][width rows][width], on the way to `value`
  float* query = nullptr;     // [panel][kBlockRows][width], times the scale
  float* output_gradient = nullptr;
  float* scores = nullptr;          // [key panel][kBlockRows][width], then probabilities
  float* gradients = nullptr;       // the same, of the probabilities, then of the scores
  float* query_gradient = nullptr;  // [panel][kBlockRows][width]
  float* key_gradient = nullptr;    // [panel][key][width]
  float* value_gradient = nullptr;
  float lse[kBlockRows] = {};
  float delta[kBlockRows] = {};
  float scales[kBlockRows] = {};
  QueryBlock queries = {};
  BlockMask mask = {};

  std::size_t block_panel() const { return std::size_t{kBlockRows} * static_cast<unsigned>(width); }
  std::size_t key_panel() const {
    return static_cast<std::size_t>(keys) * static_cast<unsigned>(width);
  }
  std::size_t transposed_panel() const {
    return static_cast<std::size_t>(width) * call.shape.head_dim;
  }

  void pack_keys(std::uint32_t head) {
    const Shape& shape = call.shape;
    const std::size_t panel = static_cast<std::size_t>(width) * static_cast<unsigned>(width);
    std::size_t offsets[64];
    finite_keys = true;
    for (std::int32_t first = 0; first < keys; first += width) {
      const std::int32_t count = std::min(width, keys - first);
      const std::size_t transposed = static_cast<std::size_t>(first / width) * transposed_panel();
      find_key_rows(shape, call.tile, head, first, count, offsets);
      finite_keys &= kernels.pack(shape.element, call.key, offsets, count, columns, 1,
                                  key_rows + first * width, key_panel());
      kernels.transpose(key_rows + first * width, key_panel(), count, columns, key + transposed);
      kernels.pack(shape.element, call.value, offsets, count, columns, 1, rows, panel);
      kernels.transpose(rows, panel, count, columns, value + transposed);
    }
  }

  // Runs of row groups that see some of the keys [k, k + width) of the block: visit(first row,
  // rows).
  template <class Visit>
  void each_run(std::int32_t k, Visit visit) const {
    if (mask.full) return visit(0, queries.count);
    for (std::int32_t group = 0; group * kRowGroup < queries.count;) {
      const std::int32_t from = group * kRowGroup;
      while (group * kRowGroup < queries.count && sees(mask, group, k, k + width)) ++group;
      const std::int32_t rows_here = std::min(group * kRowGroup, queries.count) - from;
      if (rows_here > 0)
        visit(from, rows_here);
      else
        ++group;
    }
  }

  void score(const float* left, const float* right, float* result, std::int32_t first,
             std::int32_t count) {
    for (std::int32_t k = 0; k < count; k += width)
      each_run(k, [&](std::int32_t from, std::int32_t rows_here) {
        kernels.multiply(
            {.a = left + from * width,
             .a_panel = block_panel(),
             .b = right + static_cast<std::size_t>((first + k) / width) * transposed_panel(),
             .c = result + static_cast<std::size_t>(k / width) * block_panel() + from * width,
             .rows = rows_here,
             .k0 = 0,
             .k1 = columns,
             .columns = std::min(width, count - k),
             .into = Into::Overwrite,
             .rescale = nullptr});
      });
  }

  // gradient[key] += sum over the rows of the block of weight[row][key] * from[row].
  void add_to_keys(const float* weights, const float* from, float* gradient, std::int32_t first,
                   std::int32_t count) {
    for (std::int32_t k = 0; k < count; k += width) {
      const std::int32_t keys_here = std::min(width, count - k);
      for (std::int32_t p = 0; p < panels; ++p) {
        const Product product = {
            .a = weights + static_cast<std::size_t>(k / width) * block_panel(),
            .a_panel = 0,
            .b = from + static_cast<std::size_t>(p) * block_panel(),
            .c = gradient + static_cast<std::size_t>(p) * key_panel() + (first + k) * width,
            .rows = keys_here,
            .k0 = 0,
            .k1 = 0,
            .columns = std::min(width, columns - p * width),
            .into = Into::Add,
            .rescale = nullptr};
        if (mask.full || finite)
          each_run(k, [&](std::int32_t first_row, std::int32_t rows_here) {
            Product some = product;
            some.k0 = first_row;
            some.k1 = first_row + rows_here;
            kernels.multiply_transposed(some);
          });
        else
          add_seen_only(product, k, keys_here);
      }
    }
  }

  void add_seen_only(Product product, std::int32_t k, std::int32_t keys_here) {
    Product some = product;
    for (std::int32_t row = 0; row < queries.count; ++row)
      for (int i = 0; i < 2; ++i) {
        const std::int32_t begin = std::clamp(mask.spans[row].begin[i] - k, 0, keys_here);
        const std::int32_t end = std::clamp(mask.spans[row].end[i] - k, begin, keys_here);
        some.a = product.a + begin;
        some.c = product.c + begin * width;
        some.rows = end - begin;
        some.k0 = row;
        some.k1 = row + 1;
        kernels.multiply_transposed(some);
      }
  }

  void add_to_queries(std::int32_t first, std::int32_t count) {
    const std::int32_t together = mask.full ? queries.count : finite ? kRowGroup : 1;
    for (std::int32_t p = 0; p < panels; ++p)
      for (std::int32_t row = 0; row < queries.count; row += together) {
        Product product = {
            .a = gradients + row * width,
            .a_panel = block_panel(),
            .b = key_rows + static_cast<std::size_t>(p) * key_panel() + first * width,
            .c = query_gradient + static_cast<std::size_t>(p) * block_panel() + row * width,
            .rows = std::min(together, queries.count - row),
            .k0 = 0,
            .k1 = count,
            .columns = std::min(width, columns - p * width),
            .into = Into::Add,
            .rescale = nullptr};
        if (!mask.full && finite) {
          product.k0 = mask.begin[row / kRowGroup];
          product.k1 = mask.end[row / kRowGroup];
        }
        if (mask.full || finite) {
          kernels.multiply(product);
          continue;
        }
        for (int i = 0; i < 2; ++i) {
          product.k0 = mask.spans[row].begin[i];
          product.k1 = std::max(product.k0, mask.spans[row].end[i]);
          kernels.multiply(product);
        }
      }
  }

  void find_probabilities(std::int32_t count) {
    const bool all = mask.full && count % kernels.lanes == 0;
    kernels.probabilities({.scores = scores,
                           .panel = block_panel(),
                           .rows = queries.count,
                           .k0 = 0,
                           .k1 = count,
                           .spans = all ? nullptr : mask.spans},
                          gradients, lse, delta);
  }

  void attend_block() {
    static constexpr VisibleKeys kNone{};
    const Shape& shape = call.shape;
    for (std::int32_t row = 0; row < queries.count; ++row) {
      lse[row] = call.lse[queries.of_gradient[row]];
      delta[row] = call.delta[queries.of_gradient[row]];
      // All scores of the row are -infinity, so all probabilities are zero.
      if (lse[row] == -std::numeric_limits<float>::infinity()) queries.visible[row] = &kNone;
    }
    finite = kernels.pack(shape.element, call.query, queries.in_matrix, queries.count, columns,
                          shape.scale, query, block_panel());
    finite &= kernels.pack(shape.element, call.output_gradient, queries.in_gradient, queries.count,
                           columns, 1, output_gradient, block_panel());
    finite &= finite_keys;
    std::fill_n(query_gradient, static_cast<std::size_t>(panels) * block_panel(), 0.0f);
    for (std::int32_t first = 0; first < keys; first += kBlockKeys) {
      const std::int32_t count = std::min(kBlockKeys, keys - first);
      find_block_mask(queries.visible, queries.count, kRowGroup, first, count, mask);
      if (!mask.any) continue;
      score(query, key, scores, first, count);
      score(output_gradient, value, gradients, first, count);
      find_probabilities(count);
      add_to_keys(scores, output_gradient, value_gradient, first, count);
      add_to_keys(gradients, query, key_gradient, first, count);
      add_to_queries(first, count);
    }
    kernels.unpack(query_gradient, block_panel(), scales, call.query_gradient, queries.in_tile,
                   queries.count, columns);
  }

  void write_keys(std::uint32_t head) {
    constexpr std::int32_t kTogether = 64;
    std::size_t offsets[kTogether];
    float ones[kTogether];
    std::fill_n(ones, kTogether, 1.0f);
    for (std::int32_t first = 0; first < keys; first += kTogether) {
      const std::int32_t count = std::min(kTogether, keys - first);
      for (std::int32_t j = 0; j < count; ++j)
        offsets[j] = key_gradient_at(
            call.shape, static_cast<std::size_t>(first) + static_cast<std::size_t>(j), head);
      kernels.unpack(key_gradient + first * width, key_panel(), ones, call.key_gradient, offsets,
                     count, columns);
      kernels.unpack(value_gradient + first * width, key_panel(), ones, call.value_gradient,
                     offsets, count, columns);
    }
  }
};

}  // namespace

void backward(const Kernels& kernels, const BackwardCall& call, Scratch::Memory& memory) {
  memory.restart();
  const Shape& shape = call.shape;
  const std::int32_t width = kernels.width;
  Backward b{.kernels = kernels,
             .call = call,
             .columns = static_cast<std::int32_t>(shape.head_dim),
             .width = width,
             .panels = (static_cast<std::int32_t>(shape.head_dim) + width - 1) / width,
             .keys = static_cast<std::int32_t>(call.tile.key_rows.size())};
  const auto wide = static_cast<std::size_t>(width);
  const auto panels = static_cast<std::size_t>(b.panels);
  const std::size_t key_panels = (call.tile.key_rows.size() + wide - 1) / wide;
  const std::size_t block = std::size_t{kBlockRows} * kBlockKeys;
  b.key = memory.floats(key_panels * b.transposed_panel());
  b.value = memory.floats(key_panels * b.transposed_panel());
  b.key_rows = memory.floats(panels * b.key_panel());
  b.rows = memory.floats(panels * wide * wide);
  b.query = memory.floats(panels * b.block_panel());
  b.output_gradient = memory.floats(panels * b.block_panel());
  b.scores = memory.floats(block);
  b.gradients = memory.floats(block);
  b.query_gradient = memory.floats(panels * b.block_panel());
  b.key_gradient = memory.floats(panels * b.key_panel());
  b.value_gradient = memory.floats(panels * b.key_panel());
  std::fill_n(b.scales, kBlockRows, shape.scale);

  const std::size_t rows = call.tile.query_rows.size() * (shape.heads / shape.kv_heads);
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    b.pack_keys(head);
    std::fill_n(b.key_gradient, panels * b.key_panel(), 0.0f);
    std::fill_n(b.value_gradient, panels * b.key_panel(), 0.0f);
    for (std::size_t first = 0; first < rows; first += kBlockRows) {
      memory.between_blocks();
      fill_query_block(shape, call.tile, head, first,
                       static_cast<std::int32_t>(std::min<std::size_t>(kBlockRows, rows - first)),
                       b.queries);
      b.attend_block();
    }
    b.write_keys(head);
  }
}

}  // namespace ringsched::cpu
