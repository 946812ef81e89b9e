// How should a Task be laid out? Each candidate holds the same plan, a ring of W workers under a
// full mask (attend, merge, send and receive for each worker and step), and is asked for the two
// things that all later speed hangs on: filling it, and one pass over it in program order that
// follows inputs, which is what verify, a simulator and an executor do.
// docs/decisions/plan-layout.md draws the conclusion.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace {

using ringsched::PageAllocator;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;

enum Kind : u8 { Attend, Merge, Send, Receive };

// One tensor record and one input list entry for each use, quantities stored in each task.
struct Records {
  struct Tensor {
    u8 kind;
    u32 worker, chunk;
    i64 bytes;
    u32 producer;
  };
  struct Task {
    u8 kind, lane;
    u32 worker, step;
    i64 pairs;
    u32 peer, output, first_input, input_count;
  };
  std::vector<Tensor> tensors;
  std::vector<Task> tasks;
  std::vector<u32> inputs;

  void reserve(std::size_t n) {
    tensors.reserve(n);
    tasks.reserve(n);
    inputs.reserve(2 * n);
  }
  u32 add(Kind kind, u32 worker, u32 step, u32 chunk, u32 a, u32 b, u32 peer) {
    const u32 id = static_cast<u32>(tasks.size());
    const u32 first = static_cast<u32>(inputs.size());
    if (a != ~0u) inputs.push_back(a);
    if (b != ~0u) inputs.push_back(b);
    u32 output = ~0u;
    if (kind != Send) {
      output = static_cast<u32>(tensors.size());
      tensors.push_back({kind, worker, chunk, 4096, id});
    }
    tasks.push_back({kind, kind >= Send, worker, step, kind == Attend ? 64 : 0, peer, output, first,
                     static_cast<u32>(inputs.size()) - first});
    return output;
  }
  i64 pass() const {
    i64 sum = 0;
    for (const Task& t : tasks) {
      sum += t.pairs + t.worker;
      for (u32 i = 0; i < t.input_count; ++i) sum += tensors[inputs[t.first_input + i]].producer;
    }
    return sum;
  }
  std::size_t bytes() const {
    return tensors.size() * sizeof(Tensor) + tasks.size() * sizeof(Task) + 4 * inputs.size();
  }
};

// Implicit tensors, work looked up in a small table, everything of a task side by side.
template <class Worker, template <class> class Allocator, int Inputs>
struct Flat {
  struct Task {
    u8 kind, lane;
    Worker worker;
    u32 step, work, region, peer;
    std::array<u32, Inputs> inputs;
  };
  std::vector<Task, Allocator<Task>> tasks;
  std::array<i64, 4> works = {64, 0, 0, 0};

  void reserve(std::size_t n) { tasks.reserve(n); }
  u32 add(Kind kind, u32 worker, u32 step, u32 chunk, u32 a, u32 b, u32 peer) {
    Task& t = tasks.emplace_back();
    t.kind = kind;
    t.lane = kind >= Send;
    t.worker = static_cast<Worker>(worker);
    t.step = step;
    t.work = kind;
    t.region = chunk;
    t.peer = peer;
    t.inputs.fill(~0u);
    t.inputs[0] = a;
    t.inputs[1] = b;
    return static_cast<u32>(tasks.size()) - 1;
  }
  i64 pass() const {
    i64 sum = 0;
    for (const Task& t : tasks) {
      sum += works[t.work] + t.worker;
      for (const u32 input : t.inputs)
        if (input < tasks.size()) sum += tasks[input].worker;
    }
    return sum;
  }
  std::size_t bytes() const { return tasks.size() * sizeof(Task); }
};

// The same fields, each in an array of its own.
struct Columns {
  template <class T>
  using Column = std::vector<T, PageAllocator<T>>;
  Column<u8> kind, lane;
  Column<u16> worker;
  Column<u32> step, work, region, peer, a, b, c;
  std::array<i64, 4> works = {64, 0, 0, 0};

  void reserve(std::size_t n) {
    kind.reserve(n), lane.reserve(n), worker.reserve(n);
    for (Column<u32>* column : {&step, &work, &region, &peer, &a, &b, &c}) column->reserve(n);
  }
  u32 add(Kind k, u32 w, u32 s, u32 chunk, u32 x, u32 y, u32 p) {
    kind.push_back(k), lane.push_back(k >= Send), worker.push_back(static_cast<u16>(w));
    step.push_back(s), work.push_back(k), region.push_back(chunk), peer.push_back(p);
    a.push_back(x), b.push_back(y), c.push_back(~0u);
    return static_cast<u32>(kind.size()) - 1;
  }
  i64 pass() const {
    i64 sum = 0;
    for (std::size_t t = 0; t < kind.size(); ++t) {
      sum += works[work[t]] + worker[t];
      for (const u32 input : {a[t], b[t], c[t]})
        if (input < kind.size()) sum += worker[input];
    }
    return sum;
  }
  std::size_t bytes() const { return kind.size() * 32; }
};

template <class Plan>
void fill_ring(Plan& plan, u32 workers) {
  plan.reserve(4 * std::size_t{workers} * workers);
  std::vector<u32> visiting(workers, ~0u), result(workers, ~0u), next(workers);
  for (u32 s = 0; s < workers; ++s) {
    for (u32 r = 0; r < workers && s > 0; ++r) {
      const u32 to = r + 1 == workers ? 0 : r + 1;
      const u32 send = plan.add(Send, r, s, r, visiting[r], ~0u, 0);
      next[to] = plan.add(Receive, to, s, r, ~0u, ~0u, send);
    }
    visiting = next;
    for (u32 r = 0; r < workers; ++r) {
      const u32 partial = plan.add(Attend, r, s, r, ~0u, visiting[r], ~0u);
      result[r] = s == 0 ? partial : plan.add(Merge, r, s, r, result[r], partial, ~0u);
    }
  }
}

template <class Plan>
void fill(benchmark::State& state) {
  const auto workers = static_cast<u32>(state.range(0));
  double bytes_per_task = 0;
  for (auto _ : state) {
    Plan plan;
    fill_ring(plan, workers);
    benchmark::DoNotOptimize(plan);
    bytes_per_task = static_cast<double>(plan.bytes()) / (4.0 * workers * workers - 3.0 * workers);
  }
  state.counters["bytes/task"] = bytes_per_task;
}

template <class Plan>
void pass(benchmark::State& state) {
  Plan plan;
  fill_ring(plan, static_cast<u32>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(plan.pass());
}

template <class T>
using Heap = std::allocator<T>;
template <class T>
using Pages = PageAllocator<T>;
using Narrow32 = Flat<u16, Pages, 3>;     // what Plan uses
using Narrow32Heap = Flat<u16, Heap, 3>;  // without huge pages
using Wide36 = Flat<u32, Pages, 3>;
using Two28 = Flat<u16, Pages, 2>;  // no room for the third input of a backward attend
static_assert(sizeof(Narrow32::Task) == 32 && sizeof(Wide36::Task) == 36 &&
              sizeof(Two28::Task) == 28);

#define LAYOUT(name)                                                                    \
  BENCHMARK(fill<name>)->Name("fill/" #name)->Arg(1024)->Unit(benchmark::kMillisecond); \
  BENCHMARK(pass<name>)->Name("pass/" #name)->Arg(1024)->Unit(benchmark::kMillisecond)
LAYOUT(Records);
LAYOUT(Columns);
LAYOUT(Wide36);
LAYOUT(Narrow32Heap);
LAYOUT(Narrow32);
LAYOUT(Two28);

}  // namespace

BENCHMARK_MAIN();
