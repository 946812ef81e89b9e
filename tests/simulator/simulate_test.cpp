#include "ringsched/simulator/simulate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/spread.hpp"
#include "support/block_model.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/more_lanes.hpp"
#include "support/naive_simulation.hpp"

namespace ringsched {
namespace {

constexpr Overlap kOverlaps[] = {Overlap::None, Overlap::Prefetch, Overlap::Unbounded};

Machine ideal() { return find_machine("ideal"); }

Plan plan_of(const Problem& p, const Schedule& s, Overlap overlap = Overlap::Prefetch) {
  return limit_communication(build_plan(p, s), {overlap, 0});
}

// Messages of the size of a kernel's work, so that both matter.
Problem busy_problem(std::uint32_t workers, Pass pass = Pass::Forward, Mask mask = Mask::causal()) {
  Problem p = small_problem(workers, 40 * workers + 3, pass, std::move(mask));
  p.head_dim = 64;
  return p;
}

// Kernels of 1 us beside transfers that hold SMs; `late_us`: what the blocks of these SMs take.
struct LateCase {
  double transfer_us = 0, tail_us = 0, late_us = 0;
  std::uint32_t workers = 2;
  Pass pass = Pass::Forward;
  bool waits_for_kernel = true, posts_first = true;
};

// The durations of all attends, as a naive simulation has them, too.
std::vector<double> attends_us(const LateCase& c) {
  Machine m = test_machine(Fabric::Switch, c.workers);
  m.fabric.link.gb_per_s = 1e6;
  m.sms = 10;
  m.comm_sms = 2;
  m.launch_us = 0;
  m.comm_waits_for_kernel = c.waits_for_kernel;
  m.software.posts_first = c.posts_first;
  m.software.prepare_bytes = 0;
  for (KernelTable& t : m.kernels) {
    t.blocks = {.rows = 4, .keys = 4, .overhead_keys = 2};
    t.deals_blocks = DealsBlocks::Always;
  }
  const Plan plan =
      plan_of(small_problem(c.workers, 32 * c.workers, c.pass), find_schedule("ring"));
  Workload w = price(plan, m);
  const auto ps = [](double us) { return std::llround(1e6 * us); };
  const std::size_t works = plan.works.size();
  for (std::size_t work = 0; work < works; ++work) {
    for (const TaskKind kind : {TaskKind::Attend, TaskKind::AttendBackward}) {
      const std::size_t at = static_cast<std::size_t>(kind) * works + work;
      w.compute[at] = ps(1);
      w.tail[at] = ps(c.tail_us);
      for (std::size_t n = 0; n < 2; ++n) {
        w.slowed[n][at] = 1;
        w.late[n][at] = ps(c.late_us);
      }
    }
    for (auto& startup : w.startup) startup[work] = ps(c.transfer_us);
  }
  const Simulation s = simulate(w);
  const NaiveRun slow = naive_simulation(w, {});
  std::vector<double> out;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    EXPECT_NEAR(static_cast<double>(s.end[id]), slow.end[id], 100) << id;
    if (is_attend(plan.tasks[id].kind))
      out.push_back(static_cast<double>(s.end[id] - s.start[id]) * 1e-6);
  }
  return out;
}

// They start when the transfer has ended or the first SMs have done all, whichever is first.
TEST(LateBlocks, StartWhenAnSmIsFree) {
  EXPECT_NEAR(attends_us({0.7, 0, 0.6})[0], 1.3, 1e-3);
  EXPECT_NEAR(attends_us({0.3, 0, 0.6})[0], 1, 1e-3) << "the other blocks take longer";
  EXPECT_NEAR(attends_us({1.5, 0, 0.6})[0], 1.6, 1e-3) << "an SM is free after 1 us";
  EXPECT_NEAR(attends_us({1.5, 0.2, 0.6})[0], 1.4, 1e-3) << "an SM is free after 0.8 us";
  EXPECT_NEAR(attends_us({1.5, 0, 0})[0], 1, 1e-3) << "no block waits";
  for (const double us : attends_us({1.5, 1, 0.6, 4, Pass::Forward, true, false}))
    EXPECT_NEAR(us, 1, 1e-3) << "an SM is free at once, also for transfers that it releases";
}

TEST(LateBlocks, AreAsANaiveSimulationHasThem) {
  for (const std::uint32_t workers : {2u, 3u, 4u})
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const bool waits : {false, true})
        for (const bool posts : {false, true})
          for (const double tail : {0.0, 0.2, 1.0})
            for (const double transfer : {0.3, 0.7, 1.5}) {
              SCOPED_TRACE(testing::Message() << workers << waits << posts << tail << transfer
                                              << (pass == Pass::Both));
              attends_us({transfer, tail, 0.6, workers, pass, waits, posts});
            }
}

class SimulatedSchedule : public testing::TestWithParam<Case> {};

TEST_P(SimulatedSchedule, TakesOnTheIdealMachineWhatTheBlockModelSays) {
  const auto [schedule, workers] = GetParam();
  const Plan plan = plan_of(small_problem(workers, 12 * workers), *schedule);
  for (const double d : {0.5, 1.0, 0.375, 0.0625}) {
    const double expected = 1e6 * block_model(plan, d).makespan;
    const double rounded = static_cast<double>(plan.tasks.size());  // each to a picosecond
    const Workload w = price(plan, ideal(), d);
    EXPECT_NEAR(static_cast<double>(simulate(w).makespan.value), expected, rounded) << d;
    Conditions by_events;
    by_events.events_only = true;
    EXPECT_EQ(simulate(w, by_events).makespan, simulate(w).makespan) << d;
  }
}

TEST_P(SimulatedSchedule, NeedsNoEvenShareOfTokensForTheBlockModel) {
  const auto [schedule, workers] = GetParam();
  const Plan even = plan_of(small_problem(workers, 12 * workers), *schedule);
  const Plan uneven = plan_of(small_problem(workers, 12 * workers + workers / 2), *schedule);
  EXPECT_EQ(simulate(price(even, ideal())).makespan, simulate(price(uneven, ideal())).makespan);
}

TEST_P(SimulatedSchedule, IsTheSameInOnePassAndByEvents) {
  const auto [schedule, workers] = GetParam();
  for (const Pass pass : {Pass::Forward, Pass::Both})
    for (const Overlap overlap : kOverlaps) {
      const Plan plan = plan_of(busy_problem(workers, pass), *schedule, overlap);
      const Workload w = price(plan, test_machine(Fabric::Mesh, workers));
      Conditions c;
      c.noise = 0.1;
      const Simulation swept = simulate(w, c);
      c.events_only = true;
      const Simulation evented = simulate(w, c);
      ASSERT_EQ(swept.start, evented.start) << to_text(overlap);
      ASSERT_EQ(swept.end, evented.end) << to_text(overlap);
      for (std::size_t l = 0; l < swept.links.size(); ++l) {
        ASSERT_NEAR(swept.links[l].bytes, evented.links[l].bytes, 1);
        if (!swept.by_events) {
          ASSERT_EQ(swept.links[l].busy, evented.links[l].busy);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Simulate, SimulatedSchedule,
                         testing::ValuesIn(all_schedules(kSanitized ? 9 : 33)),
                         [](const auto& i) { return i.param.name(); });

TEST(Simulate, StripedPaysADiagonalInEachStep) {
  for (std::uint32_t w = 1; w <= 33; ++w) {
    const Plan plan = plan_of(small_problem(w, 12 * w), find_schedule("striped"));
    EXPECT_EQ(simulate(price(plan, ideal(), 0.5)).makespan.value, w * 500000);
    EXPECT_EQ(simulate(price(plan, ideal(), 0.25)).makespan.value, w * 250000);
  }
}

// Where nothing is shared the short way is taken, or the comparison above would compare nothing.
TEST(Simulate, RingInOnePass) {
  const Plan plan = plan_of(busy_problem(8), find_schedule("ring"));
  EXPECT_FALSE(simulate(price(plan, test_machine(Fabric::Switch, 8))).by_events);
  EXPECT_FALSE(simulate(price(plan, ideal())).by_events);
  Machine narrow = test_machine(Fabric::Switch, 8);
  narrow.fabric.core_gb_per_s = 100;
  EXPECT_TRUE(simulate(price(plan, narrow)).by_events);
}

void expect_naive(const Workload& w, const Conditions& c, const std::string& what) {
  const Simulation fast = simulate(w, c);
  const NaiveRun slow = naive_simulation(w, c);
  // Whenever a speed changes, an end is rounded to a picosecond, and those add up.
  const double tolerance = 1e-9 * slow.makespan + 2.0 * static_cast<double>(w.plan->tasks.size());
  ASSERT_NEAR(static_cast<double>(fast.makespan.value), slow.makespan, tolerance) << what;
  for (std::size_t id = 0; id < slow.end.size(); ++id) {
    ASSERT_NEAR(static_cast<double>(fast.start[id]), slow.start[id], tolerance)
        << what << " " << id;
    ASSERT_NEAR(static_cast<double>(fast.end[id]), slow.end[id], tolerance) << what << " " << id;
  }
}

TEST(Simulate, MoreLanesAsANaiveSimulationHasThem) {
  for (const Schedule& s : schedules())
    for (const auto& [name, machine] : test_machines(4))
      for (const Overlap overlap : {Overlap::Prefetch, Overlap::Unbounded}) {
        const Plan plan = on_more_lanes(plan_of(busy_problem(4, Pass::Both), s, overlap));
        Conditions c;
        for (std::uint32_t r = 0; r < 4; ++r) c.slow_worker.push_back(1 + 0.013 * ((r * 7) % 5));
        expect_naive(price(plan, machine), c,
                     fmt::format("{} {} {}", s.name, name, to_text(overlap)));
      }
}

// All operands on the eighth lane: each link still has the messages of one lane.
TEST(Simulate, MoreLanesInBothEngines) {
  for (const Schedule& s : schedules()) {
    const Plan three = plan_of(busy_problem(4), s);
    Plan eight = on_more_lanes(three);
    for (std::size_t id = 0; id < eight.tasks.size(); ++id)
      if (three.tasks[id].lane == Lane::Fetch) eight.tasks[id].lane = static_cast<Lane>(7);
    const Machine mesh = test_machine(Fabric::Mesh, 4);
    Conditions c;
    c.noise = 0.1;
    const Simulation swept = simulate(price(eight, mesh), c);
    EXPECT_EQ(swept.by_events, simulate(price(three, mesh), c).by_events);
    EXPECT_TRUE(s.name != "ring" || !swept.by_events);
    c.events_only = true;
    const Simulation evented = simulate(price(eight, mesh), c);
    EXPECT_EQ(swept.start, evented.start) << s.name;
    EXPECT_EQ(swept.end, evented.end) << s.name;
    EXPECT_EQ(evented.end, simulate(price(three, mesh), c).end) << s.name;
  }
}

class SmallSchedule : public testing::TestWithParam<Case> {};

TEST_P(SmallSchedule, IsAsANaiveSimulationHasIt) {
  const auto [schedule, workers] = GetParam();
  for (const auto& [name, machine] : test_machines(workers))
    for (const Overlap overlap : kOverlaps) {
      const Plan plan = plan_of(busy_problem(workers), *schedule, overlap);
      const Workload w = price(plan, machine);
      Conditions c;
      // Uneven speeds, so that little happens at the same instant but by rule.
      for (std::uint32_t r = 0; r < workers; ++r)
        c.slow_worker.push_back(1 + 0.013 * ((r * 7) % 5));
      expect_naive(w, c, name + " " + std::string(to_text(overlap)));
      if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Simulate, SmallSchedule, testing::ValuesIn(all_schedules(6)),
                         [](const auto& i) { return i.param.name(); });

TEST(Simulate, BackwardAndOtherMasksAreAsANaiveSimulationHasThem) {
  for (const char* mask : {"full", "window:50", "prefix:9,window:40", "documents:70,53,80",
                           "window:40,documents:70,53,80"})
    for (const Pass pass : {Pass::Backward, Pass::Both})
      for (const Schedule& s : schedules_for(5))
        for (const auto& [name, machine] : test_machines(5)) {
          const Problem p = busy_problem(5, pass, parse_mask(mask));
          const Plan plan = plan_of(p, s);
          expect_naive(price(plan, machine), {}, name + " " + mask + " " + std::string(s.name));
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(Simulate, DoesNotDependOnTheOrderOfWhatHappensAtOneInstant) {
  for (const Schedule& s : schedules_for(8))
    for (const auto& [name, machine] : test_machines(8)) {
      const Plan plan = plan_of(busy_problem(8, Pass::Both), s);
      const Workload w = price(plan, machine);
      Conditions c;
      c.events_only = true;
      const Simulation first = simulate(w, c);
      for (c.tie_seed = 1; c.tie_seed <= 5; ++c.tie_seed) {
        const Simulation shuffled = simulate(w, c);
        // But for the rounding of shared rates to whole picoseconds.
        for (std::size_t id = 0; id < first.end.size(); ++id) {
          ASSERT_LE(std::abs(first.start[id] - shuffled.start[id]), 20) << name << " " << s.name;
          ASSERT_LE(std::abs(first.end[id] - shuffled.end[id]), 20) << name << " " << s.name;
        }
      }
    }
}

TEST(Simulate, GivesTheSameSpreadWhateverTheNumberOfThreads) {
  const Plan plan = plan_of(busy_problem(6), find_schedule("balanced"));
  const Workload w = price(plan, test_machine(Fabric::Switch, 6));
  Conditions c;
  c.noise = 0.05;
  c.straggler_share = 0.2;
  const auto one = makespans(w, c, 40, 1);
  EXPECT_EQ(one, makespans(w, c, 40, 7));
  EXPECT_LT(percentile(one, 5), percentile(one, 95));
  EXPECT_EQ(percentile(one, 100), *std::max_element(one.begin(), one.end()));
  EXPECT_EQ(percentile(one, 0), *std::min_element(one.begin(), one.end()));
}

TEST(Simulate, TheMiddleOfManyRunsIsOneOfThem) {
  const Plan plan = plan_of(busy_problem(6), find_schedule("balanced"));
  const Workload w = price(plan, test_machine(Fabric::Switch, 6));
  Conditions c;
  c.noise = 0.05;
  c.seed = 7;
  std::vector<Picoseconds> all = makespans(w, c, 15);
  const Picoseconds middle = simulate(w, middle_of(all, c)).makespan;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(middle, all[7]);
}

TEST(Simulate, KernelsTakeLongerOnADeviceThatIsFull) {
  Machine m = test_machine(Fabric::Memory, 1);
  m.workers_per_device = m.concurrency = 3;
  for (std::uint32_t workers = 1; workers <= 3; ++workers) {
    const Plan plan = plan_of(small_problem(workers, 40 * workers, Pass::Forward, Mask::full()),
                              find_schedule("ring"));
    m.full_slowdown = 1;
    const auto alone = static_cast<double>(simulate(price(plan, m)).end[0]);
    m.full_slowdown = 1.25;
    const Workload w = price(plan, m);
    const Simulation run = simulate(w);
    EXPECT_NEAR(static_cast<double>(run.end[0]), alone * (1 + 0.125 * (workers - 1)), 1);
    // No less than all work at the speed of a full device.
    const Picoseconds bound = report(w, run, {}).bounds.work;
    EXPECT_LE(bound, run.makespan);
    EXPECT_GE(static_cast<double>(bound.value), alone * workers * (1 + 0.125 * (workers - 1)) - 1);
  }
}

TEST(Simulate, NoiseIsOfTheAskedSize) {
  Problem p = small_problem(1, 4);
  const Plan plan = plan_of(p, find_schedule("ring"));
  const Workload w = price(plan, test_machine(Fabric::Mesh, 1));
  const double mean = static_cast<double>(simulate(w).makespan.value);
  Conditions c;
  c.noise = 0.05;
  double sum = 0, squares = 0;
  constexpr int runs = 4000;
  for (c.seed = 0; c.seed < runs; ++c.seed) {
    const double x = static_cast<double>(simulate(w, c).makespan.value) / mean - 1;
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / runs, 0, 0.004);
  EXPECT_NEAR(std::sqrt(squares / runs), 0.05, 0.003);
}

TEST(Simulate, SaysWhichTaskWaitsForEverInAPlanThatDeadlocks) {
  Plan plan = plan_of(busy_problem(2, Pass::Forward, Mask::full()), find_schedule("ring"),
                      Overlap::Unbounded);
  // A receive that may start only after the send behind it in its lane.
  std::uint32_t receive = 0;
  while (plan.tasks[receive].kind != TaskKind::Receive) ++receive;
  std::uint32_t send = receive + 1;
  while (plan.tasks[send].kind != TaskKind::Send ||
         plan.tasks[send].worker_index != plan.tasks[receive].worker_index)
    ++send;
  plan.tasks[send].with_previous = false;
  plan.controls.push_back({{send}, {receive}});
  try {
    simulate(price(plan, test_machine(Fabric::Mesh, 2)));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("never starts"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ringsched
