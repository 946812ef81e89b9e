// The kernels as bench/peers/attention_torch.py calls them: heads one after the other, as in
// PyTorch's (1, heads, rows, dim), divided among threads.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "attention.hpp"

using namespace ringsched::cpu;

namespace {

struct Work {
  Shape shape;
  std::vector<std::int32_t> rows;
  std::vector<VisibleKeys> visible;

  Work(int bf16, int n, int dim, int causal)
      : shape{bf16 ? Element::Bf16 : Element::Fp32, 1, 1, static_cast<std::uint32_t>(dim),
              1 / std::sqrt(static_cast<float>(dim))},
        rows(static_cast<std::size_t>(n)) {
    std::iota(rows.begin(), rows.end(), 0);
    for (int i = 0; i < n; ++i) visible.push_back({{0, 0}, {causal ? i + 1 : n, 0}});
  }
};

template <class Attend>
void share_out(int heads, int threads, Attend attend_head) {
  static std::vector<Scratch> scratch(64);
  std::atomic<int> next = 0;
  const auto share = [&](int thread) {
    for (int head = next++; head < heads; head = next++)
      attend_head(static_cast<std::size_t>(head), scratch[static_cast<std::size_t>(thread)]);
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(share, thread);
  share(0);
}

const void* at(const void* base, std::size_t element, int bf16) {
  return static_cast<const char*>(base) + element * (bf16 ? 2 : 4);
}

float as_float(const void* base, std::size_t element, int bf16) {
  if (!bf16) return static_cast<const float*>(base)[element];
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(base)[element]} << 16;
  return __builtin_bit_cast(float, bits);
}

}  // namespace

extern "C" void ringsched_forward(int bf16, int heads, int n, int dim, int causal, int threads,
                                  const void* query, const void* key, const void* value,
                                  float* output, float* lse) {
  const Work work(bf16, n, dim, causal);
  const Tile tile{work.rows, work.rows, work.visible};
  const auto rows = static_cast<std::size_t>(n), size = rows * static_cast<std::size_t>(dim);
  share_out(heads, threads, [&](std::size_t head, Scratch& scratch) {
    const std::size_t first = head * size;
    attend(work.shape, tile, at(query, first, bf16), at(key, first, bf16), at(value, first, bf16),
           output + first, lse + head * rows, scratch);
  });
}

// PyTorch's backward pass computes delta too.
extern "C" void ringsched_backward(int bf16, int heads, int n, int dim, int causal, int threads,
                                   const void* query, const void* key, const void* value,
                                   const void* output_gradient, const float* output,
                                   const float* lse, float* query_gradient, float* key_gradient,
                                   float* value_gradient) {
  const Work work(bf16, n, dim, causal);
  const Tile tile{work.rows, work.rows, work.visible};
  const auto rows = static_cast<std::size_t>(n), columns = static_cast<std::size_t>(dim);
  share_out(heads, threads, [&](std::size_t head, Scratch& scratch) {
    const std::size_t first = head * rows * columns;
    std::vector<float> delta(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      float sums[16] = {};
      for (std::size_t c = 0; c < columns; ++c)
        sums[c % 16] += output[first + i * columns + c] *
                        as_float(output_gradient, first + i * columns + c, bf16);
      delta[i] = std::accumulate(sums, sums + 16, 0.0f);
    }
    attend_backward(work.shape, tile, at(query, first, bf16), at(key, first, bf16),
                    at(value, first, bf16), at(output_gradient, first, bf16), lse + head * rows,
                    delta.data(), query_gradient + first, key_gradient + first,
                    value_gradient + first, scratch);
  });
}
