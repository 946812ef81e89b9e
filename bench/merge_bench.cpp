// Merging, compared with its lower bound, a plain pass over memory: a += b, which reads and writes
// the same bytes. Each cycles through more memory than a core's caches hold.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "backends/cpu/combine.hpp"

namespace {

constexpr std::int64_t kInTurns = 256 << 20;

struct Partials {
  std::vector<float> a, b, a_lse, b_lse;
};

template <class Pass>
void pass(benchmark::State& state, Pass pass) {
  const std::int64_t rows = state.range(0), width = 128;
  const std::int64_t bytes = 12 * rows * width;
  std::vector<Partials> all(static_cast<std::size_t>(std::max<std::int64_t>(1, kInTurns / bytes)));
  const auto numbers = static_cast<std::size_t>(rows * width);
  for (Partials& p : all) {
    p.a.assign(numbers, 0.5f);
    p.b.assign(numbers, 0.25f);
    p.a_lse.assign(static_cast<std::size_t>(rows), 1.5f);
    p.b_lse.assign(static_cast<std::size_t>(rows), 1.25f);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    pass(all[next++ % all.size()], rows, width);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void merge(benchmark::State& state) {
  pass(state, [](Partials& p, std::int64_t rows, std::int64_t width) {
    ringsched::merge_partials(p.a.data(), p.a_lse.data(), p.b.data(), p.b_lse.data(), rows,
                              static_cast<std::uint32_t>(width));
  });
}

void add(benchmark::State& state) {
  pass(state, [](Partials& p, std::int64_t rows, std::int64_t width) {
    ringsched::add_to(p.a.data(), p.b.data(), rows * width);
  });
}

BENCHMARK(merge)->ArgName("rows")->Arg(4096)->Arg(32768);
BENCHMARK(add)->ArgName("rows")->Arg(4096)->Arg(32768);

}  // namespace
