// A report's numbers, counted again from the run alone.
#include "ringsched/simulator/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>

#include "ringsched/scheduler/overlap.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

struct NamedConditions {
  std::string name;
  Conditions conditions;
};

std::vector<NamedConditions> all_conditions() {
  std::vector<NamedConditions> all(2);
  all[0].name = "plain";
  all[1].name = "noisy";
  all[1].conditions.noise = 0.1;
  all[1].conditions.straggler_share = 0.4;
  return all;
}

struct Span {
  std::int64_t from, to;
};

// How much time all of these sets of spans have in common: each instant is looked at.
std::int64_t time_in(const std::vector<const std::vector<Span>*>& sets) {
  std::set<std::int64_t> instants;
  for (const auto* set : sets)
    for (const Span& s : *set) instants.insert({s.from, s.to});
  std::int64_t sum = 0;
  for (auto at = instants.begin(); at != instants.end() && std::next(at) != instants.end(); ++at)
    if (std::all_of(sets.begin(), sets.end(), [&](const auto* set) {
          return std::any_of(set->begin(), set->end(),
                             [&](const Span& s) { return s.from <= *at && *at < s.to; });
        }))
      sum += *std::next(at) - *at;
  return sum;
}

struct Lanes {
  std::vector<Span> computing, posted, moving, all;
};

Lanes lanes_of(const Plan& plan, const Simulation& run, std::uint32_t worker) {
  Lanes out;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.worker_index != worker) continue;
    const Span span = {run.start[id], run.end[id]};
    out.all.push_back(span);
    if (!communicates(t.kind)) {
      out.computing.push_back(span);
      continue;
    }
    out.posted.push_back(span);
    std::int64_t both = span.from;  // since when all that take part are there
    if (is_transfer(t.kind)) {
      both = std::max(both, run.start[t.peer.value]);
    } else {
      for (std::uint32_t m = plan.exchange(t).first.value; m < plan.exchange(t).end(); ++m)
        both = std::max(both, run.start[m]);
    }
    if (both < span.to) out.moving.push_back({both, span.to});
  }
  return out;
}

// Of the time before a computing task that started when the host had issued it, what none covers;
// not after the last that takes time. A task may wait for a host by way of messages and exchanges
// of its worker, if no other end of these was posted later.
std::int64_t issued_late(const Plan& plan, const Simulation& run, std::uint32_t id) {
  std::uint32_t first = id;  // of its group
  while (plan.tasks[first].with_previous) do
      --first;
    while (plan.tasks[first].worker_index != plan.tasks[id].worker_index ||
           plan.tasks[first].lane != plan.tasks[id].lane);
  const Cause cause = run.cause[first];
  if (cause.kind == Cause::Host) return run.start[id];
  if (cause.kind == Cause::None || cause.kind == Cause::Member) return 0;
  const Task& before = plan.tasks[cause.task];
  if (!communicates(before.kind) || before.worker_index != plan.tasks[id].worker_index) return 0;
  for (std::uint32_t other = 0; other < plan.tasks.size(); ++other) {
    const Task& t = plan.tasks[other];
    const bool ends = is_exchange(before.kind)
                          ? is_exchange(t.kind) && t.exchange == before.exchange
                          : before.peer.value == other;
    if (ends && run.start[other] > run.start[cause.task]) return 0;
  }
  return issued_late(plan, run, cause.task);
}

std::int64_t waited_for_host(const Plan& plan, const Simulation& run, std::uint32_t worker) {
  std::int64_t sum = 0, ended = 0, last = 0;
  for (const bool counts : {false, true})
    for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
      const Task& t = plan.tasks[id];
      if (t.worker_index != worker || communicates(t.kind)) continue;
      if (!counts) {
        if (run.end[id] > run.start[id]) last = std::max(last, run.end[id]);
        continue;
      }
      if (run.start[id] < last)
        sum += std::max<std::int64_t>(
            0, issued_late(plan, run, static_cast<std::uint32_t>(id)) - ended);
      ended = std::max(ended, run.end[id]);
    }
  return sum;
}

void expect_counted_again(const Plan& plan, const Simulation& run, const Report& r) {
  ASSERT_EQ(r.workers.size(), plan.problem.workers);
  double computing = 0, moving = 0, hidden = 0;
  for (std::uint32_t i = 0; i < plan.problem.workers; ++i) {
    const WorkerTimes& w = r.workers[i];
    ASSERT_EQ(w.attending + w.overhead + w.waiting + w.out_of_work, r.makespan) << i;
    for (const Picoseconds part : {w.attending, w.overhead, w.waiting, w.out_of_work})
      ASSERT_GE(part.value, 0) << i;
    const Lanes lanes = lanes_of(plan, run, i);
    const std::int64_t computed = time_in({&lanes.computing});
    ASSERT_EQ(w.waiting_for_host.value, waited_for_host(plan, run, i)) << i;
    ASSERT_LE(w.waiting_for_host, w.waiting) << i;
    ASSERT_EQ((w.attending + w.overhead).value, computed) << i;
    ASSERT_EQ(w.transferring.value, time_in({&lanes.moving})) << i;
    ASSERT_EQ(w.hidden.value, time_in({&lanes.moving, &lanes.computing})) << i;
    ASSERT_EQ(w.hta_busy.value, time_in({&lanes.all})) << i;
    ASSERT_EQ(w.hta_communication.value, time_in({&lanes.posted})) << i;
    ASSERT_EQ(w.hta_overlapped.value, time_in({&lanes.posted, &lanes.computing})) << i;
    computing += static_cast<double>(computed);
    moving += static_cast<double>(w.transferring.value);
    hidden += static_cast<double>(w.hidden.value);
  }
  const double workers = plan.problem.workers, whole = static_cast<double>(r.makespan.value);
  ASSERT_NEAR(r.idle_fraction, 1 - computing / (workers * whole), 1e-12);
  ASSERT_NEAR(r.overlap_fraction, moving > 0 ? hidden / moving : 1, 1e-12);
  ASSERT_NEAR(static_cast<double>(r.exposed_communication.value), (moving - hidden) / workers, 1);
  ASSERT_GE(r.hta_idle_fraction, 0);
  ASSERT_LE(r.hta_idle_fraction, 1);
}

void expect_path(const Simulation& run, const Report& r) {
  const PathShare& p = r.path;
  for (const Picoseconds part :
       {p.attending, p.overhead, p.startup, p.below_speed, p.wire, p.contention, p.host, p.waiting})
    ASSERT_GE(part.value, 0);
  ASSERT_EQ(p.attending + p.overhead + p.startup + p.below_speed + p.wire + p.contention + p.host +
                p.waiting,
            r.makespan);
  ASSERT_FALSE(r.path_steps.empty());
  std::int64_t at = 0, gaps = 0;
  for (const PathStep& step : r.path_steps) {
    ASSERT_GE(step.start.value, at);
    ASSERT_LE(step.start, step.end);
    ASSERT_LE(step.end.value, run.end[step.task.value]);
    gaps += step.start.value - at;
    at = step.end.value;
  }
  ASSERT_EQ(at, r.makespan.value);
  ASSERT_EQ(gaps, p.waiting.value + p.host.value);
}

void expect_bounds(const Report& r) {
  // Rates of shared links are rounded to whole picoseconds, a few at a time.
  const std::int64_t most = r.makespan.value + 20;
  for (const Picoseconds bound : {r.bounds.work, r.bounds.worker, r.bounds.chain, r.bounds.link})
    ASSERT_LE(bound.value, most) << r.bounds.work.value << " " << r.bounds.worker.value << " "
                                 << r.bounds.chain.value << " " << r.bounds.link.value;
  ASSERT_EQ(r.bounds.best().value,
            std::max({r.bounds.work, r.bounds.worker, r.bounds.chain, r.bounds.link}).value);
  for (const LinkReport& l : r.links) {
    ASSERT_LE(l.utilisation, 1 + 1e-6);
    ASSERT_LE(l.busy, r.makespan);
  }
}

class ReportedSchedule : public testing::TestWithParam<Case> {};

TEST_P(ReportedSchedule, IsCountedAgainOnEveryMachineAndCondition) {
  const auto [schedule, workers] = GetParam();
  for (const auto& [machine_name, machine] : test_machines(workers))
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
        Problem p = small_problem(workers, 40 * workers + 3, pass);
        p.head_dim = 64;
        const Plan plan = limit_communication(build_plan(p, *schedule), {overlap, 0});
        const Workload w = price(plan, machine);
        for (const auto& [name, conditions] : all_conditions()) {
          SCOPED_TRACE(machine_name + ", " + name + ", " + std::string(to_text(overlap)) + ", " +
                       std::string(to_text(pass)));
          const Simulation run = simulate(w, conditions);
          const Report r = report(w, run, conditions);
          expect_counted_again(plan, run, r);
          expect_path(run, r);
          expect_bounds(r);
          const auto slacks = slack(w, run, conditions);
          ASSERT_GE(*std::min_element(slacks.begin(), slacks.end()), 0);
          ASSERT_EQ(*std::min_element(slacks.begin(), slacks.end()), 0);
          if (HasFatalFailure()) return;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Report, ReportedSchedule,
                         testing::ValuesIn(all_schedules(kSanitized ? 3 : 6)),
                         [](const auto& i) { return i.param.name(); });

// Two workers share one device and the third, with as much to do as they, has one to itself.
TEST(Report, BoundsTheWorkByTheDevicesThereAre) {
  Machine m = test_machine(Fabric::Switch, 2);
  m.workers_per_device = 2;
  m.launch_us = 0;
  const Schedule s = {
      "alone", "", "",
      [](std::uint32_t, Tokens) {
        return custom_layout({{0, 1, 100}, {100, 1, 100}, {200, 1, 141}},
                             {{{0}, 1}, {{1}, 1}, {{2}, 1}});
      },
      [](const Problem& p, PlanBuilder& plan) {
        plan.step(0);
        for (std::uint32_t w = 0; w < p.workers; ++w)
          plan.merge(plan.attend(plan.queries(WorkerId{w}), plan.keys(WorkerId{w})));
      }};
  const Plan plan = build_plan(small_problem(3, 341, Pass::Forward, Mask::full()), s);
  const Workload w = price(plan, m);
  const Report r = report(w, simulate(w));
  const auto makespan = static_cast<double>(r.makespan.value);
  EXPECT_LE(r.bounds.work, r.makespan);
  EXPECT_GT(static_cast<double>(r.bounds.work.value), 0.99 * makespan);
}

// Kernels that run side by side may slow each other so much that one alone is faster.
TEST(Report, BoundsTheWorkWhereKernelsSlowEachOther) {
  Machine m = test_machine(Fabric::Switch, 1);
  m.workers_per_device = 2;
  m.launch_us = 0;
  m.concurrency = 2;
  m.full_slowdown = 3;
  for (const char* name : {"ring", "balanced"}) {
    const Plan plan = build_plan(small_problem(2, 34'000), find_schedule(name));
    const Workload w = price(plan, m);
    const Report r = report(w, simulate(w));
    EXPECT_LE(r.bounds.work, r.makespan) << name;
  }
}

TEST(Report, OfTheIdealMachineHidesEverything) {
  const Plan plan =
      limit_communication(build_plan(small_problem(4, 64), find_schedule("ring")), {});
  const Machine ideal = find_machine("ideal");
  const Workload w = price(plan, ideal);
  const Report r = report(w, simulate(w));
  EXPECT_EQ(r.overlap_fraction, 1);
  EXPECT_EQ(r.exposed_communication.value, 0);
  EXPECT_EQ(r.makespan.value, 3'500'000);  // W - 1 + d
  // 4 diagonals and 6 blocks in 4 lanes of 3.5.
  EXPECT_NEAR(r.idle_fraction, 1 - 8 / 14.0, 1e-12);
  EXPECT_EQ(one_device(w, ideal).value, 8'000'000);
}

}  // namespace
}  // namespace ringsched
