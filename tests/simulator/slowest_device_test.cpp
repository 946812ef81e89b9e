#include "slowest_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {
namespace {

// The naive way: many sets of devices, and the median of their slowest.
double drawn_pace(const std::vector<double>& attending, double spread) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> deviation(0, spread);
  std::vector<double> slowest;
  for (int i = 0; i < 40000; ++i) {
    double last = 0;
    for (const double time : attending) last = std::max(last, time * (1 + deviation(random)));
    slowest.push_back(last);
  }
  std::ranges::nth_element(slowest, slowest.begin() + 20000);
  return slowest[20000] / *std::ranges::max_element(attending);
}

TEST(SlowestDevice, IsTheMedianOfManyDraws) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> time(0.9, 1);
  for (const std::size_t devices : {2u, 3u, 8u, 32u}) {
    std::vector<double> attending(devices, 5.0);
    EXPECT_NEAR(pace_of_slowest(attending, 0.02), drawn_pace(attending, 0.02), 3e-4) << devices;
    for (double& t : attending) t = time(random);
    EXPECT_NEAR(pace_of_slowest(attending, 0.03), drawn_pace(attending, 0.03), 3e-4) << devices;
  }
}

TEST(SlowestDevice, DoesNotMatterToOneDeviceOrToEqualOnes) {
  EXPECT_EQ(pace_of_slowest({7}, 0.1), 1);
  EXPECT_EQ(pace_of_slowest({7, 0, 0}, 0.1), 1);  // those without work wait for nobody
  EXPECT_EQ(pace_of_slowest({0, 0}, 0.1), 1);
  EXPECT_EQ(pace_of_slowest({7, 7, 7}, 0), 1);
  EXPECT_EQ(pace_of_slowest({8, 7, 6, 5}, 0.01), 1);  // the first has the most to do in any case
}

Plan plan_of(const char* schedule, std::uint32_t workers, Mask mask = Mask::causal()) {
  Problem p;
  p.workers = workers;
  p.tokens = {8192 * std::int64_t{workers}};
  p.mask = std::move(mask);
  return build_plan(p, find_schedule(schedule));
}

double pace(const char* machine, const Plan& plan) {
  return price(plan, find_machine(machine)).pace;
}

// 1.385 standard deviations: that all of eight are faster than this has a chance of one half.
constexpr double kOfEight = 1.385;

TEST(SlowestDevice, SlowsSchedulesWhoseWorkersHaveEqualWork) {
  const Plan full = plan_of("ring", 8, Mask::full());
  EXPECT_NEAR(pace("hgx-h100", full), 1 + kOfEight * kDeviceSpread, 1e-4);
  EXPECT_EQ(pace("ideal", full), 1);
  EXPECT_EQ(pace("laptop", full), 1);  // all workers share one device
  EXPECT_GT(pace("hgx-h100x4-ib400", plan_of("ring", 32, Mask::full())), pace("hgx-h100", full));

  EXPECT_EQ(pace("hgx-h100", plan_of("zigzag", 1)), 1);
  EXPECT_EQ(pace("hgx-h100", plan_of("ring", 8)), 1);  // only the last worker has the most work
  EXPECT_GT(pace("hgx-h100", plan_of("zigzag", 8)), 1.01);
}

TEST(SlowestDevice, HasASpreadThatProfilesMayState) {
  Machine m = read_machine(
      "base = \"hgx-h100\"\nname = \"even\"\nsummary = \"even\"\n"
      "[devices]\nspread = 0.032\nsource = \"a test\"\n",
      "even.toml");
  const Plan full = plan_of("ring", 8, Mask::full());
  EXPECT_NEAR(price(full, m).pace, 1 + kOfEight * 0.032, 1e-4);
  m.devices_spread = 0;
  m.noise = 0.05;  // what differs between workers is drawn
  EXPECT_EQ(price(full, m).pace, 1);
}

TEST(SlowestDevice, MakesAttendsLongerAndNothingElse) {
  Problem p;
  p.workers = 4;
  p.tokens = {32768};
  p.pass = Pass::Both;
  const Plan plan = build_plan(p, find_schedule("zigzag"));
  Machine m = find_machine("dgx-a100");
  m.devices_spread = 1e-6;
  const Workload even = price(plan, m);
  m.devices_spread = 0.05;
  const Workload uneven = price(plan, m);
  ASSERT_GT(uneven.pace, 1.03);
  const std::size_t works = plan.works.size();
  for (std::size_t at = 0; at < even.compute.size(); ++at) {
    const double ratio = even.compute[at] == 0 ? 1
                                               : static_cast<double>(uneven.compute[at]) /
                                                     static_cast<double>(even.compute[at]);
    const bool attends = is_attend(static_cast<TaskKind>(at / works)) && even.compute[at] > 0;
    EXPECT_NEAR(ratio, attends ? uneven.pace : 1, 1e-5) << at;
  }
}

}  // namespace
}  // namespace ringsched
