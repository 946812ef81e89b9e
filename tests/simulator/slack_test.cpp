// Slack is what it says: each task takes that much longer, and the run is simulated again.
#include <gtest/gtest.h>

#include <algorithm>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/report.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

// 0.1 GB/s: one byte more takes so many ps longer.
constexpr std::int64_t kByte = 10'000;

// The same prices, task by task.
Workload priced_by_task(const Plan& plan, const Machine& m) {
  Workload w = price(plan, m);
  w.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    w.amounts[id] =
        t.kind == TaskKind::Send
            ? plan.works[t.work.value].bytes.value
            : w.compute[static_cast<std::size_t>(t.kind) * plan.works.size() + t.work.value];
  }
  return w;
}

class SlackOfSchedule : public testing::TestWithParam<Case> {};

TEST_P(SlackOfSchedule, IsHowMuchLongerATaskCanTakeAndNotMore) {
  const auto [schedule, workers] = GetParam();
  int checked = 0;
  for (const Pass pass : {Pass::Forward, Pass::Both})
    for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
      Problem p = small_problem(workers, 40 * workers + 3, pass);
      p.head_dim = 64;
      const Plan plan = limit_communication(build_plan(p, *schedule), {overlap, 0});
      Workload w = priced_by_task(plan, test_machine(Fabric::Mesh, workers));
      const Conditions c;
      // Uneven, so that what is late differs from worker to worker.
      for (std::uint32_t r = 0; r < workers; ++r)
        for (std::size_t id = 0; id < plan.tasks.size(); ++id)
          if (plan.tasks[id].worker_index == r && plan.tasks[id].kind != TaskKind::Receive)
            w.amounts[id] += w.amounts[id] * ((r * 7) % 5) / 9;
      const Simulation run = simulate(w, c);
      if (run.by_events) continue;  // something was shared
      const auto slacks = slack(w, run, c);
      for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
        const Task& task = plan.tasks[id];
        if (task.kind == TaskKind::Receive) {
          ASSERT_EQ(slacks[id], slacks[task.peer.value]) << id;
          continue;
        }
        const std::int64_t unit = task.kind == TaskKind::Send ? kByte : 1;
        const auto longer_by = [&](std::int64_t amount) {
          w.amounts[id] += amount;
          const Simulation again = simulate(w, c);
          w.amounts[id] -= amount;
          EXPECT_FALSE(again.by_events);
          return again.makespan - run.makespan;
        };
        // Bytes over a rate are rounded up to whole picoseconds.
        const std::int64_t rounding = unit > 1 ? 2 : 0;
        const std::int64_t may = std::max<std::int64_t>(0, slacks[id] - rounding) / unit;
        const std::int64_t may_not = (slacks[id] + rounding) / unit + 1;
        ASSERT_EQ(longer_by(may).value, 0) << to_text(task.kind) << " " << id << " "
                                           << to_text(overlap) << " slack " << slacks[id];
        ASSERT_GT(longer_by(may_not).value, 0) << to_text(task.kind) << " " << id << " "
                                               << to_text(overlap) << " slack " << slacks[id];
        ++checked;
      }
    }
  EXPECT_GT(checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Slack, SlackOfSchedule, testing::ValuesIn(schedules_of_messages(6)),
                         [](const auto& i) { return i.param.name(); });

}  // namespace
}  // namespace ringsched
