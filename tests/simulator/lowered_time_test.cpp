// The time of exchanges that have become messages: by the links, compared with a naive simulation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/export.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/machines.hpp"
#include "support/naive_simulation.hpp"

namespace ringsched {
namespace {

// On a switch each worker's link carries W - 1 messages at once; round a ring, one after the other.
TEST(LoweredTime, IsWhatBytesOverLinksSay) {
  for (std::uint32_t w = 2; w <= 9; ++w) {
    const Machine m = test_machine(Fabric::Switch, w);
    const Problem p = small_problem(w, 1000 * std::int64_t{w}, Pass::Forward, Mask::full());
    const double keys = 1000.0 * 2 * p.kv_heads * p.head_dim * 2;
    const double wire = keys / 1e8 * 1e12, latency = 2e6;  // 0.1 GB/s
    const Plan native = build_plan(p, find_schedule("all-gather"));
    const auto last_arrival = [&](Lowering how) {
      const Plan plan = lower_exchanges(native, how).plan;
      const Simulation run = simulate(price(plan, m));
      std::int64_t last = 0;
      for (std::size_t id = 0; id < plan.tasks.size(); ++id)
        if (is_receive(plan.tasks[id].kind)) last = std::max(last, run.end[id]);
      return static_cast<double>(last);
    };
    EXPECT_NEAR(last_arrival(Lowering::Direct), latency + (w - 1) * wire, 1e-9 * w * wire + 2);
    EXPECT_NEAR(last_arrival(Lowering::Ring), (w - 1) * (latency + wire), 1e-9 * w * wire + w);
  }
}

TEST(LoweredTime, IsAsANaiveSimulationHasIt) {
  Conditions c;
  c.slow_worker = {1, 1.013, 1.026, 1.039};
  for (const auto& [name, machine] : test_machines(4))
    for (const Lowering how : {Lowering::Direct, Lowering::Ring, Lowering::Tree})
      for (const auto make : {ulysses_by_hand, gather_queries_by_hand, star_by_hand}) {
        Problem p = small_problem(4, 163, Pass::Both);
        p.head_dim = 64;
        const Plan plan = lower_exchanges(make(p), how).plan;
        const Workload w = price(plan, machine);
        const Simulation fast = simulate(w, c);
        const NaiveRun slow = naive_simulation(w, c);
        const double tolerance =
            1e-9 * slow.makespan + 2.0 * static_cast<double>(plan.tasks.size());
        for (std::size_t id = 0; id < slow.end.size(); ++id) {
          const std::string what =
              fmt::format("{} {} {} task {}", name, to_text(how), plan.schedule, id);
          ASSERT_NEAR(static_cast<double>(fast.start[id]), slow.start[id], tolerance) << what;
          ASSERT_NEAR(static_cast<double>(fast.end[id]), slow.end[id], tolerance) << what;
        }
      }
}

// The engine that takes tasks once, in the order of the plan, is as good for these as events are.
TEST(LoweredTime, NeedsNoEventsWhereNothingIsShared) {
  int in_one_pass = 0;
  for (const char* schedule : {"all-gather", "ulysses", "usp:ulysses=2"})
    for (const Lowering how : {Lowering::Direct, Lowering::Ring})
      for (const Fabric fabric : {Fabric::Mesh, Fabric::Switch}) {
        Problem p = small_problem(4, 164);
        p.head_dim = 64;
        const Plan lowered = lower_exchanges(build_plan(p, find_schedule(schedule)), how).plan;
        const Plan plan = limit_communication(lowered, {Overlap::Prefetch, 0});
        const Workload w = price(plan, test_machine(fabric, 4));
        Conditions by_events;
        by_events.events_only = true;
        const Simulation once = simulate(w), events = simulate(w, by_events);
        in_one_pass += once.by_events ? 0 : 1;
        for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
          ASSERT_NEAR(static_cast<double>(once.end[id]), static_cast<double>(events.end[id]), 20)
              << schedule << " " << id;
          ASSERT_NEAR(static_cast<double>(once.start[id]), static_cast<double>(events.start[id]),
                      20)
              << schedule << " " << id;
        }
      }
  EXPECT_GT(in_one_pass, 0);
}

// A join reads and writes its bytes; a sum of parts costs what merges and reductions cost. The
// first member of a repack has all its time, so that reports count it once.
TEST(LoweredTime, ARepackCostsItsBytesOverTheBandwidthOfMemory) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.memory_gb_per_s = 100;
  m.launch_us = 3;
  m.software.merge_bytes = 24;
  m.software.merge_launches = 2;
  Problem p = small_problem(4, 64);
  const auto priced = [&](const Plan& plan, std::size_t which) {
    const Simulation run = simulate(price(plan, m));
    const Exchange r = plan.repacks[which];
    for (std::uint32_t id = r.first.value; id < r.end(); ++id) {
      EXPECT_EQ(run.end[id], run.end[r.first.value]);
      EXPECT_EQ(run.start[id] == run.end[id], id > r.first.value);
    }
    return static_cast<double>(run.end[r.first.value] - run.start[r.first.value]);
  };
  const Plan join =
      lower_exchanges(build_plan(p, find_schedule("all-gather")), Lowering::Ring).plan;
  const double keys = 64.0 * 2 * p.kv_heads * p.head_dim * 2;
  EXPECT_NEAR(priced(join, 0), 3e6 + 2 * keys / 100 * 1e3, 1);
  // The last one adds up four partial results of a share; the first cuts one of all tokens.
  const Plan sum = lower_exchanges(gather_queries_by_hand(p), Lowering::Direct).plan;
  const double partial = 64.0 * p.heads * (p.head_dim + 1);
  EXPECT_NEAR(priced(sum, sum.repacks.size() - 1), 2 * 3e6 + partial * 24 / 100 * 1e3, 1);
}

// Also if the path enters it at another member than the first, which has all its time.
TEST(LoweredTime, OfARepackIsOverheadOnTheCriticalPath) {
  std::size_t repacks = 0;
  for (const char* schedule : {"ulysses", "usp:ulysses=2", "all-gather"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Problem p = small_problem(4, 64, pass);
      const Plan plan =
          lower_exchanges(build_plan(p, find_schedule(schedule)), Lowering::Direct).plan;
      Machine m = test_machine(Fabric::Switch, 4);
      m.memory_gb_per_s = 0.001;  // so that repacks take long
      const Workload w = price(plan, m);
      const Simulation run = simulate(w);
      const Report r = report(w, run, {});
      std::int64_t in_repacks = 0;
      for (const PathStep& s : r.path_steps) {
        const Task& t = plan.tasks[s.task.value];
        if (!is_repack(t.kind)) continue;
        ++repacks;
        EXPECT_EQ(s.task.value, plan.exchange(t).first.value);
        EXPECT_EQ(s.start.value, run.start[s.task.value]) << schedule;
        EXPECT_GT(s.end, s.start) << schedule;
        in_repacks += (s.end - s.start).value;
      }
      EXPECT_GE(r.path.overhead.value + r.path.contention.value, in_repacks) << schedule;
    }
  EXPECT_GE(repacks, 6u);
}

TEST(LoweredTime, ReportsAndExportsTakeLoweredPlans) {
  Problem p = small_problem(4, 64, Pass::Both);
  const Plan plan = lower_exchanges(gather_queries_by_hand(p), Lowering::Direct).plan;
  const Machine m = test_machine(Fabric::Switch, 4);
  const Workload w = price(plan, m);
  const Simulation run = simulate(w);
  const Report r = report(w, run, {});
  EXPECT_LE(r.bounds.best().value, r.makespan.value);
  EXPECT_EQ(r.path.attending.value + r.path.overhead.value + r.path.startup.value +
                r.path.below_speed.value + r.path.wire.value + r.path.contention.value +
                r.path.waiting.value,
            r.makespan.value);
  for (const std::int64_t s : slack(w, run, {})) EXPECT_GE(s, 0);
  // What a worker did and what it waited for fill the run.
  for (const WorkerTimes& t : r.workers)
    EXPECT_EQ((t.attending + t.overhead + t.waiting + t.out_of_work).value, r.makespan.value);
  EXPECT_NE(goal(w).text.find("calc"), std::string::npos);
  // Of a repack, only the first member waits for what others made, and it has all the cost.
  const Exchange repack = plan.repacks[0];
  const std::string line =
      fmt::format("\ncompute {} {} 0 0 deps {}\n", repack.first.value + 1,
                  plan.tasks[repack.first.value].worker_index, repack.first.value);
  EXPECT_NE(workload_text(w).find(line), std::string::npos);
}

}  // namespace
}  // namespace ringsched
