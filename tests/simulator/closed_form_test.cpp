// Networks and plans so simple that their time has a formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

constexpr double kLatency = 2e6, kLaunch = 1e6;  // ps, of test_machine()
constexpr double kRate = 1e-4;                   // bytes per ps: 0.1 GB/s
constexpr double kKeyRow = 2 * 2 * 8 * 2;        // K and V, 2 heads of 8 bf16 numbers

// Durations are rounded up to whole picoseconds, a few times in a row.
void expect_ps(std::int64_t ps, double expected) {
  EXPECT_NEAR(static_cast<double>(ps), expected, 1e-9 * expected + 16);
}

Problem full_problem(std::uint32_t workers, std::int64_t tokens) {
  return small_problem(workers, tokens, Pass::Forward, Mask::full());
}

// 4 d floating-point operations for each pair and head, at 0.01 TFLOP/s.
double attend_ps(double rows, double keys) { return kLaunch + rows * keys * 4 * 8 * 4 / 0.01; }
double merge_ps(double rows) { return kLaunch + rows * 4 * 8 * 12; }  // 1000 GB/s: a byte per ps

// When each receive ends, in the order of tasks.
std::vector<std::int64_t> arrivals(const Plan& plan, const Machine& m) {
  const Simulation run = simulate(price(plan, m));
  std::vector<std::int64_t> all;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Receive) all.push_back(run.end[id]);
  return all;
}

// Worker 0 has shares of 600 and 200 tokens, the others 300 each.
Layout uneven(std::uint32_t workers, Tokens) {
  std::vector<TokenRange> chunks{{0, 1, 600}, {600, 1, 200}};
  std::vector<Region> shares{{{0}, 2}};
  for (std::uint32_t w = 1; w < workers; ++w) {
    chunks.push_back({500 + 300 * w, 1, 300});
    shares.push_back({{w + 1}, 1});
  }
  return custom_layout(chunks, shares);
}

void one_message(const Problem&, PlanBuilder& plan) {
  plan.step(1);
  plan.merge(plan.attend(plan.queries(WorkerId{1}), plan.move(plan.keys(WorkerId{0}), {1})));
}

void two_messages(const Problem&, PlanBuilder& plan) {
  plan.step(1);
  const Keys first = plan.move(plan.keys(WorkerId{0}).part(0), {1});
  const Keys second = plan.move(plan.keys(WorkerId{0}).part(1), {2});
  plan.merge(plan.attend(plan.queries(WorkerId{1}), first));
  plan.merge(plan.attend(plan.queries(WorkerId{2}), second));
}

TEST(ClosedForm, AMessageTakesItsLatencyAndItsBytesOverTheRate) {
  const Schedule s = {"one", "", "", contiguous, one_message};
  const Plan plan = build_plan(full_problem(2, 128), s);
  for (const Fabric fabric : {Fabric::Switch, Fabric::Mesh, Fabric::Memory}) {
    const Machine m = test_machine(fabric, 2);
    const double arrives = kLatency + 64 * kKeyRow / kRate;
    expect_ps(arrivals(plan, m).at(0), arrives);
    expect_ps(simulate(price(plan, m)).makespan.value, arrives + attend_ps(64, 64));
  }
}

// The shorter one ends when both have moved its bytes; the rest of the longer one then goes alone.
TEST(ClosedForm, TwoMessagesShareALinkUntilTheShorterHasArrived) {
  const Schedule s = {"two", "", "", uneven, two_messages};
  const Plan plan = build_plan(full_problem(3, 1400), s);
  const auto ends = arrivals(plan, test_machine(Fabric::Switch, 3));
  expect_ps(ends.at(1), kLatency + 2 * 200 * kKeyRow / kRate);
  expect_ps(ends.at(0), kLatency + (600 + 200) * kKeyRow / kRate);
  const auto apart = arrivals(plan, test_machine(Fabric::Mesh, 3));
  expect_ps(apart.at(1), kLatency + 200 * kKeyRow / kRate);
  expect_ps(apart.at(0), kLatency + 600 * kKeyRow / kRate);
}

TEST(ClosedForm, TwoEqualMessagesOnALinkTakeTwiceAsLong) {
  const Schedule s = {"two", "", "", halves, two_messages};
  const Plan plan = build_plan(full_problem(3, 600), s);
  for (const std::int64_t end : arrivals(plan, test_machine(Fabric::Switch, 3)))
    expect_ps(end, kLatency + 2 * 100 * kKeyRow / kRate);
}

// Keys that go round arrive every `move`; each step computes for `step`, but the first does not
// merge. What holds up last is nothing, the first keys that arrive, or the last.
double ring_ps(double workers, double move, double attend, double merge) {
  const double step = attend + merge;
  return std::max(
      {attend + (workers - 1) * step, move + (workers - 1) * step, (workers - 1) * move + step});
}

TEST(ClosedForm, ARingTakesTheLongerOfComputingAndMoving) {
  int bound_by_computing = 0, bound_by_moving = 0;
  for (const Fabric fabric : {Fabric::Mesh, Fabric::Switch})
    for (const std::uint32_t w : {2u, 3u, 8u, 13u})
      for (const std::int64_t rows : {10, 50, 400, 5000}) {
        const Plan plan = build_plan(full_problem(w, rows * w), find_schedule("ring"));
        const double n = static_cast<double>(rows);
        const double move = kLatency + n * kKeyRow / kRate;
        const double attend = attend_ps(n, n), merge = merge_ps(n);
        ++(move > attend + merge ? bound_by_moving : bound_by_computing);
        expect_ps(simulate(price(plan, test_machine(fabric, w))).makespan.value,
                  ring_ps(w, move, attend, merge));
      }
  EXPECT_GT(bound_by_computing, 0);
  EXPECT_GT(bound_by_moving, 0);
}

// One lane for all: what is computed and what is moved add up.
TEST(ClosedForm, ARingWithoutOverlapTakesTheSum) {
  const Plan plan = limit_communication(build_plan(full_problem(6, 300), find_schedule("ring")),
                                        {Overlap::None, 0});
  const double move = kLatency + 50 * kKeyRow / kRate, attend = attend_ps(50, 50);
  expect_ps(simulate(price(plan, test_machine(Fabric::Mesh, 6))).makespan.value,
            attend + 5 * (move + attend + merge_ps(50)));
}

// 0 > 2 > 1 > 3 > 0: with two workers on each node, every hop leads to the other node.
void weaving_ring(const Problem& p, PlanBuilder& plan) {
  constexpr std::uint32_t after[] = {2, 3, 1, 0};
  std::vector<Keys> visiting;
  for (std::uint32_t w = 0; w < 4; ++w) visiting.push_back(plan.keys(WorkerId{w}));
  for (Step s = 0; s < p.workers; ++s) {
    plan.step(s);
    if (s > 0) {
      std::vector<Keys> moved(4);
      for (std::uint32_t w = 0; w < 4; ++w)
        moved[after[w]] = plan.move(visiting[w], WorkerId{after[w]});
      visiting = moved;
    }
    for (std::uint32_t w = 0; w < 4; ++w)
      plan.merge(plan.attend(plan.queries(WorkerId{w}), visiting[w]));
  }
}

TEST(ClosedForm, ARingThroughOneNicPerNodeTakesAsManyTimesAsLongAsMessagesShareIt) {
  Machine m = test_machine(Fabric::Switch, 2);
  m.nodes = 2;
  m.network.nics = 1;
  m.network.link = {0.02, 5, {}};
  const Schedule s = {"weaving", "", "", contiguous, weaving_ring};
  const Plan plan = build_plan(full_problem(4, 400), s);
  const double attend = attend_ps(100, 100), merge = merge_ps(100);
  const double alone = 100 * kKeyRow / 2e-5;
  expect_ps(simulate(price(plan, m)).makespan.value, ring_ps(4, 5e6 + 2 * alone, attend, merge));
  // A core of a quarter of both NICs carries all four.
  m.network.oversubscription = 4;
  expect_ps(simulate(price(plan, m)).makespan.value, ring_ps(4, 5e6 + 8 * alone, attend, merge));
  m.network.oversubscription = 1;
  m.network.nics = 2;
  expect_ps(simulate(price(plan, m)).makespan.value, ring_ps(4, 5e6 + alone, attend, merge));
}

// All messages read and write one memory.
TEST(ClosedForm, ARingInOneMemoryTakesAsLongAsAllItsBytes) {
  const Plan plan = build_plan(full_problem(5, 250), find_schedule("ring"));
  const double move = kLatency + 5 * 50 * kKeyRow / kRate;
  expect_ps(simulate(price(plan, test_machine(Fabric::Memory, 5))).makespan.value,
            ring_ps(5, move, attend_ps(50, 50), merge_ps(50)));
}

// Two workers on a device that runs one kernel at a time.
TEST(ClosedForm, KernelsThatShareADeviceTakeTwiceAsLong) {
  Machine m = test_machine(Fabric::Switch, 1);
  m.workers_per_device = 2;
  const Schedule s = {
      "alone", "", "", contiguous, [](const Problem&, PlanBuilder& plan) {
        plan.step(0);
        for (std::uint32_t w = 0; w < 2; ++w)
          plan.merge(plan.attend(plan.queries(WorkerId{w}), plan.keys(WorkerId{w})));
      }};
  const Plan plan = build_plan(full_problem(2, 100), s);
  expect_ps(simulate(price(plan, m)).makespan.value, 2 * attend_ps(50, 50));
  m.concurrency = 2;
  expect_ps(simulate(price(plan, m)).makespan.value, attend_ps(50, 50));
}

TEST(ClosedForm, ARunLongerThanTimeCountsIsRefused) {
  Machine m = test_machine(Fabric::Mesh, 4);
  const Plan plan = build_plan(full_problem(4, 400), find_schedule("ring"));
  Conditions c;
  for (c.events_only = false;; c.events_only = true) {
    m.launch_us = 1e11;  // 28 hours before each kernel: one lane takes 8 days with its merges
    EXPECT_NEAR(static_cast<double>(simulate(price(plan, m), c).makespan.value), 7e17, 1e12);
    m.launch_us = 1e12;
    EXPECT_THROW(simulate(price(plan, m), c), Error);
    m.launch_us = 1;
    m.fabric.link.gb_per_s = 1e-15;
    EXPECT_THROW(simulate(price(plan, m), c), Error);
    m.fabric.link.gb_per_s = 0.1;
    if (c.events_only) break;
  }
}

}  // namespace
}  // namespace ringsched
