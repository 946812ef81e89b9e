#include "ringsched/timeline/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

Plan plan_of(const char* schedule, std::uint32_t workers = 4, std::int64_t tokens = 163) {
  return limit_communication(
      build_plan(small_problem(workers, tokens, Pass::Both), find_schedule(schedule)), {});
}

Timeline predicted(const Plan& plan, const Machine& m, const Conditions& c = {}) {
  const Workload w = price(plan, m);
  return predicted_timeline(w, simulate(w, c), m);
}

TEST(PredictedTimeline, HasTheTimesOfTheRun) {
  const Plan plan = plan_of("balanced");
  const Machine m = test_machine(Fabric::Switch, 4);
  const Workload w = price(plan, m);
  const Simulation run = simulate(w);
  const Timeline t = predicted_timeline(w, run, m);
  EXPECT_EQ(t.makespan(), run.makespan);
  EXPECT_EQ(t.machine, "test");
  EXPECT_EQ(t.source, TimelineSource::Predicted);
  ASSERT_EQ(t.tasks.size(), plan.tasks.size());
  for (std::size_t id = 0; id < t.tasks.size(); ++id) {
    EXPECT_EQ(t.tasks[id].start_ps, run.start[id]);
    EXPECT_EQ(t.tasks[id].end_ps, run.end[id]);
    EXPECT_EQ(t.tasks[id].worker, plan.tasks[id].worker_index);
  }
}

TEST(Compare, FindsNothingBetweenATimelineAndItself) {
  const Timeline t = predicted(plan_of("balanced"), test_machine(Fabric::Switch, 4));
  const Comparison c = compare(t, t);
  EXPECT_TRUE(c.same_plan);
  EXPECT_EQ(c.error(), 0);
  EXPECT_TRUE(c.worst.empty());
  for (const auto* parts : {&c.classes, &c.workers})
    for (const ComparedPart& p : *parts) {
      EXPECT_EQ(p.ratio(), 1) << p.name;
      EXPECT_EQ(p.tasks[0], p.tasks[1]) << p.name;
    }
}

// Counted again, task by task.
TEST(Compare, AddsUpClassesAndWorkersOfBothSides) {
  Conditions slow;
  slow.slow_worker = {1, 3, 1, 1};
  const Timeline sides[] = {predicted(plan_of("balanced"), test_machine(Fabric::Switch, 4)),
                            predicted(plan_of("zigzag"), test_machine(Fabric::Pcie, 4), slow)};
  const Comparison c = compare(sides[0], sides[1]);
  EXPECT_FALSE(c.same_plan);
  EXPECT_TRUE(c.worst.empty());
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> classes[2], workers[2];
  for (int s = 0; s < 2; ++s) {
    EXPECT_EQ(c.makespan[s], sides[s].makespan());
    for (const TimelineTask& t : sides[s].tasks) {
      std::string name(to_text(t.kind));
      if (is_transfer(t.kind)) name += " " + sides[s].value(t).name;
      const auto add = [&](auto& part) {
        ++part.first;
        part.second += t.end_ps - t.start_ps;
      };
      add(classes[s][name]);
      if (!is_transfer(t.kind)) add(workers[s][std::to_string(t.worker)]);
    }
  }
  for (int s = 0; s < 2; ++s) {
    std::size_t found = 0;
    for (const ComparedPart& p : c.classes) {
      if (p.tasks[s] == 0) continue;
      ++found;
      EXPECT_EQ(std::pair(p.tasks[s], p.time[s].value), classes[s][p.name]) << p.name;
    }
    EXPECT_EQ(found, classes[s].size());
    ASSERT_EQ(c.workers.size(), 4u);
    for (const ComparedPart& p : c.workers)
      EXPECT_EQ(std::pair(p.tasks[s], p.time[s].value), workers[s][p.name]) << p.name;
  }
  EXPECT_NEAR(
      c.error(),
      static_cast<double>(c.makespan[1].value) / static_cast<double>(c.makespan[0].value) - 1,
      1e-15);
}

TEST(Compare, NamesTheTasksFurthestApartTheWorstFirst) {
  const Timeline first = predicted(plan_of("ring"), test_machine(Fabric::Mesh, 4));
  Timeline second = first;
  second.source = TimelineSource::Measured;
  second.tasks[3].end_ps += 500;
  second.tasks[7].end_ps -= 900;
  second.tasks[9].end_ps += 100;
  second.tasks[11].end_ps += 500;
  const auto tasks = [](const Comparison& c) {
    std::vector<std::uint32_t> ids;
    for (const ComparedTask& t : c.worst) ids.push_back(t.task);
    return ids;
  };
  EXPECT_THAT(tasks(compare(first, second)), testing::ElementsAre(7, 3, 11, 9));
  EXPECT_THAT(tasks(compare(second, first, 2)), testing::ElementsAre(7, 3));
  const ComparedTask worst = compare(first, second).worst[0];
  EXPECT_EQ((worst.took[0] - worst.took[1]).value, 900);
  // A receive speaks for its send.
  for (TimelineTask& t : second.tasks)
    if (t.kind == TaskKind::Send) t.end_ps += 5000;
  EXPECT_THAT(tasks(compare(first, second, 4)), testing::ElementsAre(7, 3, 11, 9));
}

TEST(Compare, HasARatioWhereASideHasNoTime) {
  ComparedPart p{"", {0, 0}, {{0}, {0}}};
  EXPECT_EQ(p.ratio(), 1);
  p.time[1] = {3};
  EXPECT_TRUE(std::isinf(p.ratio()));
  p.time[0] = {6};
  EXPECT_EQ(p.ratio(), 0.5);
}

TEST(Compare, RefusesOtherProblems) {
  const Machine m = test_machine(Fabric::Mesh, 8);
  const Timeline t = predicted(plan_of("ring"), m);
  EXPECT_THROW(compare(t, predicted(plan_of("ring", 5), m)), Error);
  EXPECT_THROW(compare(t, predicted(plan_of("ring", 4, 164), m)), Error);
  EXPECT_NO_THROW(compare(t, predicted(plan_of("zigzag"), m)));
}

}  // namespace
}  // namespace ringsched
