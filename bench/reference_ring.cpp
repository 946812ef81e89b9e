// One whole process of ringsched on the workload that bench/against-simulators gives to others too:
// W workers pass keys round a ring for S steps, worker r computes 1 ms in step s if s <= r and 10
// us otherwise, a message is 1e8 bytes over 300 GB/s and 2 us. `jitter` spreads both by so many
// percent, by a hash of worker and step that all sides share. `switch` sends all messages through
// one core of the capacity of W/4 links, 5 us long.
//
// usage: reference_ring ring|switch W S [JITTER] [prefetch] [events]
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace {

using namespace ringsched;
using Clock = std::chrono::steady_clock;

Step steps;  // a schedule is a plain function, so the number of steps comes from here

void short_ring(const Problem& problem, PlanBuilder& plan) {
  std::vector<Keys> visiting(problem.workers), next(problem.workers);
  for (std::uint32_t r = 0; r < problem.workers; ++r) visiting[r] = plan.keys(WorkerId{r});
  for (Step s = 0; s < steps; ++s) {
    plan.step(s);
    if (s > 0) {
      for (std::uint32_t r = 0; r < problem.workers; ++r) {
        const std::uint32_t to = (r + 1) % problem.workers;
        next[to] = plan.move(visiting[r], WorkerId{to});
      }
      visiting.swap(next);
    }
    // No merges: the other simulators' workload has none.
    for (std::uint32_t r = 0; r < problem.workers; ++r)
      plan.attend(plan.queries(WorkerId{r}), visiting[r]);
  }
}

double spread(std::uint64_t worker, std::uint64_t step, std::uint64_t salt, double jitter) {
  std::uint64_t z = (worker << 33) ^ (step << 2) ^ salt;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return 1 + jitter * (2 * static_cast<double>(z >> 11) / 9007199254740992.0 - 1);
}

Machine machine(std::uint32_t workers, bool through_core) {
  Machine m;
  m.name = through_core ? "switch" : "ring";
  m.devices_per_node = workers;
  KernelTable& table = m.kernels.emplace_back();
  table.dtypes = {Dtype::Bf16};
  table.tokens = {1};
  table.tflops = {1};
  m.fabric.kind = Fabric::Switch;
  m.fabric.link.gb_per_s = 300;
  m.fabric.link.latency_us = through_core ? 5 : 2;
  if (through_core) m.fabric.core_gb_per_s = 300.0 * workers / 4;
  return m;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto begin = Clock::now();
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  if (argc < 4) fail("usage: reference_ring ring|switch W S [JITTER] [prefetch] [events]");
  const bool through_core = std::string(argv[1]) == "switch";
  const auto workers = static_cast<std::uint32_t>(std::atoi(argv[2]));
  steps = static_cast<Step>(std::atoi(argv[3]));
  const double jitter = argc > 4 ? std::atof(argv[4]) / 100 : 0;
  Conditions conditions;
  Overlap overlap = Overlap::Unbounded;
  for (int i = 5; i < argc; ++i) {
    conditions.events_only |= std::string(argv[i]) == "events";
    if (std::string(argv[i]) == "prefetch") overlap = Overlap::Prefetch;
  }

  Problem problem;
  problem.workers = workers;
  problem.tokens = {workers};
  problem.mask = Mask::full();
  const Schedule ring = {"reference", "", "", contiguous, short_ring};
  const Plan plan = limit_communication(build_plan(problem, ring), {overlap, 0});
  const double planned = since();
  Workload workload = price(plan, machine(workers, through_core));
  workload.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.kind == TaskKind::Attend) {
      const double us = t.step <= t.worker_index ? 1000 : 10;
      workload.amounts[id] =
          static_cast<std::int64_t>(us * spread(t.worker_index, t.step, 1, jitter) * 1e6);
    } else if (is_send(t.kind)) {  // what step s reads was sent in step s - 1
      workload.amounts[id] =
          static_cast<std::int64_t>(1e8 * spread(t.worker_index, t.step - 1, 2, jitter));
    }
  }
  const double priced = since();
  const Simulation run = simulate(workload, conditions);
  const double done = since();
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  fmt::print(
      "{} W={} S={} jitter={:g} simulated={:.6f} plan={:.4f} price={:.4f} run={:.4f} all={:.4f} "
      "tasks={} engine={} rss={} MiB\n",
      argv[1], workers, steps, jitter, static_cast<double>(run.makespan.value) * 1e-12, planned,
      priced - planned, done - priced, done, plan.tasks.size(),
      run.by_events ? "events" : "one pass", use.ru_maxrss / 1024);
  std::fflush(stdout);
  std::_Exit(0);
} catch (const std::exception& e) {
  fmt::print(stderr, "reference_ring: {}\n", e.what());
  return 2;
}
