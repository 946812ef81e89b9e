// Building, limiting and verifying plans, by schedule and number of workers. Counters: tasks per
// second and bytes per task.
#include <benchmark/benchmark.h>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"

namespace {

using namespace ringsched;

Problem problem(benchmark::State& state, Mask mask) {
  Problem p;
  p.workers = static_cast<std::uint32_t>(state.range(0));
  p.tokens = {1024 * state.range(0)};
  p.mask = std::move(mask);
  return p;
}

void count(benchmark::State& state, const Plan& plan) {
  const auto tasks = static_cast<double>(plan.tasks.size());
  const std::size_t bytes =
      plan.tasks.size() * sizeof(Task) + plan.controls.size() * sizeof(ControlEdge) +
      plan.works.size() * sizeof(Work) + plan.regions.size() * sizeof(Region) +
      plan.initial.size() * sizeof(InitialTensor);
  state.counters["tasks"] = tasks;
  state.counters["tasks/s"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes/task"] = static_cast<double>(bytes) / tasks;
}

void build(benchmark::State& state, const char* schedule, Mask mask) {
  const Problem p = problem(state, std::move(mask));
  Plan plan;
  for (auto _ : state) {
    plan = {};
    plan = build_plan(p, find_schedule(schedule));
    benchmark::DoNotOptimize(plan);
  }
  count(state, plan);
}

void limit(benchmark::State& state) {
  const Plan built = build_plan(problem(state, Mask::causal()), find_schedule("balanced"));
  Plan plan;
  for (auto _ : state) {
    state.PauseTiming();
    plan = built;
    state.ResumeTiming();
    plan = limit_communication(std::move(plan), {});
  }
  count(state, plan);
}

void prove(benchmark::State& state) {
  const Plan plan = limit_communication(
      build_plan(problem(state, Mask::causal()), find_schedule("balanced")), {});
  for (auto _ : state)
    if (!verify(plan).holds()) state.SkipWithError("it does not hold");
  count(state, plan);
}

void write_file(benchmark::State& state) {
  const Plan plan = build_plan(problem(state, Mask::full()), find_schedule("ring"));
  for (auto _ : state) benchmark::DoNotOptimize(write_plan(plan));
  count(state, plan);
}

void read_file(benchmark::State& state) {
  const std::string text =
      write_plan(build_plan(problem(state, Mask::full()), find_schedule("ring")));
  Plan plan;
  for (auto _ : state) plan = read_plan(text, "benchmark");
  count(state, plan);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}

constexpr auto kMs = benchmark::kMillisecond;
BENCHMARK_CAPTURE(build, ring_full, "ring", Mask::full())
    ->RangeMultiplier(4)
    ->Range(64, 1024)
    ->Unit(kMs);
BENCHMARK_CAPTURE(build, zigzag, "zigzag", Mask::causal())
    ->RangeMultiplier(4)
    ->Range(64, 1024)
    ->Unit(kMs);
BENCHMARK_CAPTURE(build, balanced, "balanced", Mask::causal())
    ->RangeMultiplier(4)
    ->Range(64, 4096)
    ->Unit(kMs);
BENCHMARK(limit)->RangeMultiplier(4)->Range(64, 4096)->Unit(kMs);
BENCHMARK(prove)->RangeMultiplier(4)->Range(64, 4096)->Unit(kMs);
BENCHMARK(write_file)->Arg(512)->Unit(kMs);
BENCHMARK(read_file)->Arg(512)->Unit(kMs);

}  // namespace

BENCHMARK_MAIN();
