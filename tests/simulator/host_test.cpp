// Hosts issue work in the order of the plan, each thing in its time, and wait for nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/simulator/report.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

constexpr HostFigures kHost = {500, 800, 400, 600, 300, 70, 100, 200, 250, 150, Synchronises::Never,
                               0,   0,   0,   0,   {}};

Plan prefetching(const Problem& p, const char* schedule) {
  return limit_communication(build_plan(p, find_schedule(schedule)), {Overlap::Prefetch, 0});
}

Simulation run_on(const Plan& plan, Machine m, const HostFigures& host, double tflops) {
  m.software.host = host;
  m.software.output_bytes = 2;  // so that outputs are passes, too
  for (KernelTable& k : m.kernels) k.tflops = {tflops};
  return simulate(price(plan, m));
}

// Of one worker's tokens, as many chunks as it has?
bool whole(const Plan& plan, RegionId id) {
  const Region r = plan.regions[id.value], all = plan.layout.share(plan.layout.owner(r.first));
  return r.first.value == all.first.value && r.count >= all.count;
}
// A merge is into a slice where its tile has not all rows of a worker, the first one included.
bool of_a_slice(const Plan& plan, const Task& t) {
  const Task* tile = &t;
  if (t.kind == TaskKind::Merge) {
    tile = &plan.tasks[plan.producer(t.inputs[1]).value];
  } else if (t.kind != TaskKind::AttendBackward || !whole(plan, t.keys)) {
    return t.kind == TaskKind::AttendBackward;
  }
  return !whole(plan, plan.rows(*tile)) ||
         (is_attend(tile->kind) && plan.works[tile->work.value].form == TileForm::StrictlyCausal);
}

// When the host of a worker has issued its last task, counted from the docs' rules.
std::int64_t all_issued_us(const Plan& plan, std::uint32_t worker, const HostFigures& h) {
  double us = h.call_us;
  std::int64_t step = -1;
  bool backward = false;
  std::int64_t first_backward = std::numeric_limits<std::int64_t>::max();
  for (const Task& t : plan.tasks)
    if (t.kind == TaskKind::AttendBackward)
      first_backward = std::min(first_backward, std::int64_t{t.step});
  for (const Task& t : plan.tasks) {
    if (t.worker_index != worker) continue;
    if (!backward && t.step >= first_backward) {
      us += h.call_backward_us;
      backward = true;
    }
    if (std::int64_t{t.step} > step) {
      us += h.step_us;
      step = t.step;
    }
    if (t.with_previous) continue;  // issued with the first of its group
    const bool moves = is_send(t.kind) || is_receive(t.kind);
    // What was rounded before it travelled needs no cast.
    const ValueId value = plan.value(t);
    if (t.kind == TaskKind::Output && plan.program.unrounded(value) != value) continue;
    us += moves                                ? h.post_us
          : is_exchange(t.kind)                ? h.exchange_us
          : t.kind == TaskKind::Attend         ? h.attend_us
          : t.kind == TaskKind::AttendBackward ? h.attend_backward_us
          : t.kind == TaskKind::Merge          ? h.merge_us
                                               : h.pass_us;
    if (of_a_slice(plan, t)) us += h.slice_us;
  }
  return static_cast<std::int64_t>(us);
}

TEST(Host, BindsARunWhoseTasksAreShort) {
  for (const char* schedule : {"ring", "striped", "zigzag", "balanced", "ulysses", "all-gather"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Plan plan = prefetching(small_problem(4, 64, pass), schedule);
      Machine m = test_machine(Fabric::Mesh, 4);
      m.launch_us = 0;
      m.fabric.link = {1e3, 0, {}};
      const Simulation run = run_on(plan, m, kHost, 1e5);
      std::int64_t last = 0;
      for (std::uint32_t w = 0; w < 4; ++w) last = std::max(last, all_issued_us(plan, w, kHost));
      // What is issued last takes next to nothing.
      EXPECT_GE(run.makespan.value, last * 1'000'000) << schedule;
      EXPECT_LE(run.makespan.value, (last + 1) * 1'000'000) << schedule;
    }
}

// Whatever is posted after a wait, what the host did before it takes its time: as much in all as a
// host takes that never waits.
TEST(Host, LosesNothingWhenItWaits) {
  for (const Synchronises when :
       {Synchronises::Exchanges, Synchronises::Kernels, Synchronises::Steps})
    for (const char* schedule : {"ring", "zigzag", "balanced", "double-ring:node=2", "ulysses"})
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
        const Plan plan = prefetching(small_problem(4, 64, pass), schedule);
        Machine m = test_machine(Fabric::Mesh, 4);
        m.software.host = kHost;
        m.software.host.step_us = 0;  // the steps at which a host waits are others
        std::vector<std::int64_t> all(4);
        const Workload never = price(plan, m);
        for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
          std::int64_t& last = all[plan.tasks[id].worker_index];
          last = std::max(last, never.issued[id]);
        }
        m.software.host.synchronises = when;
        m.software.host.synchronise_us = 7;
        const Workload w = price(plan, m);
        for (std::uint32_t worker = 0; worker < 4; ++worker) {
          const std::vector<std::int64_t>& busy = w.host_busy[worker];
          const std::int64_t waits = std::ssize(busy) - 1;
          EXPECT_GE(simulate(w).makespan.value, all[worker] + 7'000'000 * waits) << schedule;
          EXPECT_EQ(std::reduce(busy.begin(), busy.end()), all[worker] + 7'000'000 * waits)
              << schedule << " " << worker;
        }
      }
}

TEST(Host, TakesLongerForEachSlice) {
  for (const char* schedule : {"ring", "striped", "zigzag", "balanced-split", "usp:ring=zigzag"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Plan plan = prefetching(small_problem(4, 64, pass), schedule);
      Machine m = test_machine(Fabric::Mesh, 4);
      const auto issued = [&](double slice_us, std::uint32_t worker) {
        m.software.host = kHost;
        m.software.host.slice_us = slice_us;
        const Workload w = price(plan, m);
        std::int64_t last = 0;
        for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
          if (plan.tasks[id].worker_index == worker) last = std::max(last, w.issued[id]);
        return last;
      };
      for (std::uint32_t w = 0; w < 4; ++w) {
        const auto of_worker = [&](const Task& t) {
          return t.worker_index == w && (t.kind == TaskKind::Merge || is_attend(t.kind)) &&
                 of_a_slice(plan, t);
        };
        const auto slices = std::ranges::count_if(plan.tasks, of_worker);
        EXPECT_EQ(issued(70, w) - issued(0, w), slices * std::int64_t{70'000'000})
            << schedule << ' ' << w;
      }
    }
}

TEST(Host, PostsWhatTheNextStepNeedsBeforeTheKernelsOfThisOne) {
  const Plan plan = prefetching(small_problem(4, 64, Pass::Forward), "ring");
  Machine m = test_machine(Fabric::Mesh, 4);
  m.software.host = kHost;
  const Workload w = price(plan, m);
  std::vector<std::int64_t> issued;  // by the last worker, which attends at every step
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].worker_index == 3 && !plan.tasks[id].with_previous)
      issued.push_back(w.issued[id] / 1'000'000);
  std::ranges::sort(issued);
  // The call takes 500, each step 150. A post 200, an attend 400; then also a merge 300.
  const std::vector<std::int64_t> first = {850, 1250, 1600, 2000, 2300, 2650, 3050, 3350};
  ASSERT_GE(issued.size(), first.size());
  issued.resize(first.size());
  EXPECT_EQ(issued, first);
}

TEST(Host, IssuesNothingBeforeWhatItReads) {
  for (const char* schedule : {"ring", "striped", "zigzag", "balanced", "ulysses", "all-gather"})
    for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded})
      for (const Pass pass : {Pass::Forward, Pass::Both}) {
        const Plan plan = limit_communication(
            build_plan(small_problem(4, 64, pass), find_schedule(schedule)), {overlap, 0});
        Machine m = test_machine(Fabric::Mesh, 4);
        m.software.host = kHost;
        const Workload w = price(plan, m);
        for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
          for (const TensorId input : plan.tasks[id].inputs) {
            if (!input.valid() || !plan.producer(input).valid()) continue;
            EXPECT_LE(w.issued[plan.producer(input).value], w.issued[id]) << schedule << ' ' << id;
          }
      }
}

TEST(Host, IsHiddenBehindLongTasksButForItsFirst) {
  for (const char* schedule : {"ring", "striped", "zigzag"}) {
    const Plan plan = prefetching(small_problem(4, 64, Pass::Forward), schedule);
    const Machine m = test_machine(Fabric::Mesh, 4);
    const Simulation free = run_on(plan, m, {}, 1e-6), issued = run_on(plan, m, kHost, 1e-6);
    const std::int64_t late = issued.makespan.value - free.makespan.value;
    EXPECT_GE(late, 0) << schedule;
    EXPECT_LE(late, (500 + 150 + 200 + 400) * std::int64_t{1'000'000})
        << schedule;  // to the first attend
  }
}

TEST(Host, CallsEachPassBeforeItIssuesAnything) {
  for (const char* schedule : {"ring", "balanced", "ulysses", "all-gather", "usp:ring=zigzag"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Plan plan = prefetching(small_problem(4, 64, pass), schedule);
      std::int64_t backward = std::numeric_limits<std::int64_t>::max();
      for (const Task& t : plan.tasks)
        if (t.kind == TaskKind::AttendBackward) backward = std::min(backward, std::int64_t{t.step});
      Machine m = test_machine(Fabric::Mesh, 4);
      m.software.host.call_us = 30;
      m.software.host.call_backward_us = 50;
      const Workload w = price(plan, m);
      for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
        const bool prefetched = is_transfer(plan.tasks[id].kind);  // may be issued a step earlier
        const std::int64_t us = w.issued[id] / 1'000'000;
        if (plan.tasks[id].step < backward) {
          EXPECT_EQ(us, 30) << schedule << ' ' << id;
        } else if (!prefetched) {
          EXPECT_EQ(us, 80) << schedule << ' ' << id;
        }
      }
    }
}

TEST(Host, IsWhatTasksWaitedForAndWhereThePathBegins) {
  const Plan plan = prefetching(small_problem(3, 48, Pass::Forward), "ring");
  Machine m = test_machine(Fabric::Mesh, 3);
  m.software.host = kHost;
  m.fabric.link = {1e3, 0, {}};
  for (KernelTable& k : m.kernels) k.tflops = {1e5};
  const Workload w = price(plan, m);
  const Simulation run = simulate(w);
  const Report r = report(w, run, {});
  EXPECT_GT(r.path.host.value, run.makespan.value / 2);
  EXPECT_GT(r.workers[2].waiting_for_host.value, run.makespan.value / 2);
  const Timeline timeline = predicted_timeline(w, run, m, r.path_steps);
  const auto by_host = [](const TaskDetail& d) { return d.cause == StartedBy::Host; };
  EXPECT_GT(std::ranges::count_if(timeline.details, by_host), 5);
  EXPECT_EQ(run_times(timeline).workers[2].waiting_for_host.value,
            r.workers[2].waiting_for_host.value);
}

// Each worker's hosts' waits, counted from the docs' rules: before each step but the first, or
// before what follows an exchange.
std::vector<std::uint32_t> waits_of(const Plan& plan, std::uint32_t worker, Synchronises when) {
  std::vector<std::uint32_t> out;
  std::set<Step> steps;  // for a host that waits for kernels: those that have one
  std::uint32_t exchanges = 0;
  bool exchanged = false;
  for (const Task& t : plan.tasks) {
    if (t.worker_index != worker) continue;
    if (when != Synchronises::Kernels || !communicates(t.kind)) steps.insert(t.step);
    if (exchanged && !t.with_previous) ++exchanges;
    exchanged = is_exchange(t.kind) || (exchanged && t.with_previous);
    const auto begun = static_cast<std::uint32_t>(std::max<std::size_t>(steps.size(), 1)) - 1;
    out.push_back(when == Synchronises::Exchanges ? exchanges : begun);
  }
  return out;
}

// 1 if the host's next wait does not include this task.
std::uint32_t goes_on(const Plan& plan, std::uint32_t id, Synchronises when) {
  return when == Synchronises::Kernels && communicates(plan.tasks[id].kind) ? 1 : 0;
}

constexpr HostFigures synchronising(Synchronises when, double us) {
  HostFigures h = kHost;
  h.synchronises = when;
  h.synchronise_us = us;
  return h;
}

TEST(Host, WaitsForItsDeviceWhereItsLibrarySynchronises) {
  struct Case {
    Synchronises when;
    double post_us;
  };
  for (const auto& [when, post_us] : {Case{Synchronises::Steps, 200},
                                      {Synchronises::Exchanges, 200},
                                      {Synchronises::Kernels, 200},
                                      {Synchronises::Kernels, 20'000}})
    for (const char* schedule :
         {"ring", "striped", "zigzag", "balanced", "ulysses", "usp:ulysses=2", "all-gather"})
      for (const Pass pass : {Pass::Forward, Pass::Both}) {
        const Plan plan = prefetching(small_problem(4, 64, pass), schedule);
        Machine m = test_machine(Fabric::Mesh, 4);
        m.software.host = synchronising(when, 5000);
        m.software.host.post_us = post_us;
        const Workload w = price(plan, m);
        const Simulation run = simulate(w);
        for (std::uint32_t worker = 0; worker < 4; ++worker) {
          // What starts after a wait: all before it has ended, 5 ms ago. For a host that waits for
          // kernels, what it posted between may go on until the next wait.
          std::vector<std::int64_t> first, last;
          std::uint32_t most = 0;
          for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
            if (plan.tasks[id].worker_index != worker) continue;
            const std::uint32_t waits = w.waits_before[id];
            const std::uint32_t ends = waits + goes_on(plan, id, when);
            most = std::max(most, waits);
            first.resize(std::max<std::size_t>(first.size(), ends + 1), INT64_MAX);
            last.resize(first.size(), 0);
            first[waits] = std::min(first[waits], run.start[id]);
            last[ends] = std::max(last[ends], run.end[id]);
          }
          first.resize(most + 1);
          for (std::uint32_t i = 1; i < first.size(); ++i)
            EXPECT_GE(first[i], last[i - 1] + 5'000'000'000) << schedule << ' ' << worker;
          const auto expected = waits_of(plan, worker, when);
          EXPECT_LE(most, *std::ranges::max_element(expected)) << schedule << ' ' << worker;
          EXPECT_GE(most + 2, *std::ranges::max_element(expected)) << schedule << ' ' << worker;
        }
        // What a host issues after a wait starts so long after what ended that wait.
        for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
          const Cause cause = run.cause[id];
          if (cause.kind != Cause::Host || w.waits_before[id] == 0) continue;
          EXPECT_GE(run.start[id], run.end[cause.task] + w.issued[id]) << schedule << ' ' << id;
        }
        const Report r = report(w, run, {});
        const PathShare& path = r.path;
        // Before a task that waited so, the path has what ended that wait.
        for (std::size_t i = 1; i < r.path_steps.size(); ++i) {
          const PathStep& step = r.path_steps[i];
          const std::uint32_t id = step.task.value;
          if (step.cause != Cause::Host || w.waits_before[id] == 0) continue;
          if (is_transfer(plan.tasks[id].kind)) continue;  // its other end may have been last
          std::int64_t last = 0;
          for (std::uint32_t t = 0; t < plan.tasks.size(); ++t)
            if (plan.tasks[t].worker_index == plan.tasks[id].worker_index &&
                w.waits_before[t] + goes_on(plan, t, when) < w.waits_before[id])
              last = std::max(last, run.end[t]);
          EXPECT_EQ(r.path_steps[i - 1].end.value, last) << schedule << ' ' << id;
        }
        EXPECT_EQ(path.attending.value + path.overhead.value + path.startup.value +
                      path.below_speed.value + path.wire.value + path.contention.value +
                      path.host.value + path.waiting.value,
                  run.makespan.value)
            << schedule;
        const bool waits = *std::ranges::max_element(w.waits_before) > 0;
        EXPECT_GE(path.host.value, waits ? 5'000'000'000 : 0) << schedule;
      }
}

TEST(Host, ThatSynchronisesIsNotAheadOfItsDevice) {
  const Plan plan = prefetching(small_problem(4, 64, Pass::Forward), "ring");
  const Machine m = test_machine(Fabric::Mesh, 4);
  const Simulation ahead = run_on(plan, m, kHost, 1e-6),
                   waits = run_on(plan, m, synchronising(Synchronises::Steps, 5000), 1e-6);
  // Of the last worker, which attends at each of the four steps.
  EXPECT_GE(waits.makespan.value - ahead.makespan.value, 3 * std::int64_t{5'000'000'000});
}

// It posts the next step's messages while the device works, and then waits. So three of the last
// worker's four attends start late by the wait, the step and the launch, and not by the post.
TEST(Host, ThatSynchronisesKernelsPostsBeforeItWaits) {
  const Plan plan = prefetching(small_problem(4, 64, Pass::Forward), "ring");
  const Machine m = test_machine(Fabric::Mesh, 4);
  const Simulation ahead = run_on(plan, m, kHost, 1e-6),
                   kernels = run_on(plan, m, synchronising(Synchronises::Kernels, 5000), 1e-6),
                   steps = run_on(plan, m, synchronising(Synchronises::Steps, 5000), 1e-6);
  const std::int64_t late = kernels.makespan.value - ahead.makespan.value;
  EXPECT_EQ(late / 1'000'000, 3 * (5000 + 150 + 400));
  EXPECT_GE(steps.makespan.value - kernels.makespan.value, 2 * std::int64_t{200'000'000});
}

TEST(Host, LaunchesAGraphOnce) {
  const Plan plan = prefetching(small_problem(4, 64, Pass::Both), "zigzag");
  Machine m = test_machine(Fabric::Mesh, 4);
  m.software.host = kHost;
  m.software.host.graph_us = 10;
  m.software.host.graph_node_us = 2;
  const Workload w = price(plan, m);
  std::map<std::uint32_t, std::int64_t> nodes;
  for (const Task& t : plan.tasks) nodes[t.worker_index] += t.with_previous ? 0 : 1;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    EXPECT_EQ(w.issued[id],
              (10 + 2 * nodes[plan.tasks[id].worker_index]) * std::int64_t{1'000'000});
}

TEST(Host, OfAProfileWithoutFiguresCostsNothing) {
  const Plan plan = prefetching(small_problem(3, 48, Pass::Forward), "ring");
  EXPECT_TRUE(price(plan, test_machine(Fabric::Mesh, 3)).issued.empty());
}

}  // namespace
}  // namespace ringsched
