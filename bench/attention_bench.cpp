// Attention on one core beside the rate at which the same core multiplies matrices: OpenBLAS' sgemm
// is the yardstick for fp32. Run with --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention.hpp"

#ifdef RINGSCHED_CBLAS
#include <cblas.h>
extern "C" void openblas_set_num_threads(int);
#endif

namespace {

using namespace ringsched::cpu;

std::vector<std::uint8_t> matrix(Element element, std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  const std::size_t size = element == Element::Fp32 ? 4 : 2;
  std::vector<std::uint8_t> stored(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = normal(engine);
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (element == Element::Fp32)
      std::memcpy(&stored[4 * i], &bits, 4);
    else
      std::memcpy(&stored[2 * i], reinterpret_cast<const char*>(&bits) + 2, 2);  // little-endian
  }
  return stored;
}

struct Setup {
  Shape shape;
  std::vector<std::int32_t> rows, keys;
  std::vector<VisibleKeys> visible;
  std::vector<std::uint8_t> query, key, value, output_gradient;
  std::vector<float> output, lse, delta, query_gradient, key_gradient, value_gradient;
  double pairs = 0;

  Setup(Element element, std::int64_t n, std::int64_t m, std::int64_t dim, bool causal) {
    shape = {element, 1, 1, static_cast<std::uint32_t>(dim),
             1 / std::sqrt(static_cast<float>(dim))};
    rows.resize(static_cast<std::size_t>(n));
    keys.resize(static_cast<std::size_t>(m));
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(keys.begin(), keys.end(), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto end = static_cast<std::int32_t>(causal ? (i + 1) * m / n : m);
      visible.push_back({{0, 0}, {end, 0}});
      pairs += end;
    }
    const auto queries = static_cast<std::size_t>(n * dim);
    const auto keys_size = static_cast<std::size_t>(m * dim);
    query = matrix(element, queries, 1);
    key = matrix(element, keys_size, 2);
    value = matrix(element, keys_size, 3);
    output_gradient = matrix(element, queries, 4);
    output.resize(queries);
    query_gradient.resize(queries);
    key_gradient.resize(keys_size);
    value_gradient.resize(keys_size);
    lse.resize(rows.size());
    delta.resize(rows.size());
  }
};

void rate(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state, Element element, bool causal, bool gradients) {
  Setup s(element, state.range(0), state.range(1), state.range(2), causal);
  const Tile tile{s.rows, s.keys, s.visible};
  Scratch scratch;
  const auto forward = [&] {
    attend(s.shape, tile, s.query.data(), s.key.data(), s.value.data(), s.output.data(),
           s.lse.data(), scratch);
  };
  const auto backward = [&] {
    attend_backward(s.shape, tile, s.query.data(), s.key.data(), s.value.data(),
                    s.output_gradient.data(), s.lse.data(), s.delta.data(), s.query_gradient.data(),
                    s.key_gradient.data(), s.value_gradient.data(), scratch);
  };
  forward();
  for (auto _ : state) {
    gradients ? backward() : forward();
    benchmark::ClobberMemory();
  }
  state.SetLabel(std::string(attention_isa(element)));
  rate(state, (gradients ? 10.0 : 4.0) * s.pairs * static_cast<double>(state.range(2)));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "keys", "dim"});
  for (const int dim : {128, 64}) {
    b->Args({512, 512, dim});
    b->Args({2048, 2048, dim});
  }
}

BENCHMARK_CAPTURE(attention, fp32_forward_full, Element::Fp32, false, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, fp32_forward_causal, Element::Fp32, true, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, fp32_backward_full, Element::Fp32, false, true)->Apply(shapes);
BENCHMARK_CAPTURE(attention, fp32_backward_causal, Element::Fp32, true, true)->Apply(shapes);
BENCHMARK_CAPTURE(attention, bf16_forward_full, Element::Bf16, false, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, bf16_forward_causal, Element::Bf16, true, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, bf16_backward_full, Element::Bf16, false, true)->Apply(shapes);
BENCHMARK_CAPTURE(attention, bf16_backward_causal, Element::Bf16, true, true)->Apply(shapes);

#ifdef RINGSCHED_CBLAS
// The product of the same size as the scores, and a large square one.
void sgemm(benchmark::State& state) {
  openblas_set_num_threads(1);
  const auto m = static_cast<int>(state.range(0)), n = static_cast<int>(state.range(1)),
             k = static_cast<int>(state.range(2));
  std::vector<float> a(static_cast<std::size_t>(m) * static_cast<std::size_t>(k), 0.5f);
  std::vector<float> b(static_cast<std::size_t>(n) * static_cast<std::size_t>(k), 0.25f);
  std::vector<float> c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a.data(), k, b.data(), k, 0,
                c.data(), n);
    benchmark::ClobberMemory();
  }
  rate(state, 2.0 * m * n * k);
}
BENCHMARK(sgemm)->ArgNames({"m", "n", "k"})->Args({512, 512, 128})->Args({2048, 2048, 2048});
#endif

}  // namespace
