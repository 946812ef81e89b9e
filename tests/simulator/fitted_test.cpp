// A machine fitted to one measured time.
#include "ringsched/simulator/fitted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;
using Asked = Setup;  // a test has a member Setup

Plan of_eight(const char* schedule, std::int64_t tokens = 65536) {
  Problem p;
  p.workers = 8;
  p.tokens = {tokens};
  p.heads = 32;
  p.kv_heads = 8;
  p.head_dim = 128;
  return limit_communication(build_plan(p, find_schedule(schedule)), {Overlap::Prefetch, 0});
}

Picoseconds times(Picoseconds p, double factor) {
  return {static_cast<std::int64_t>(static_cast<double>(p.value) * factor)};
}

TEST(Fit, PredictsWhatWasMeasured) {
  const Asked setup{find_machine("dgx-a100"), {}};
  for (const char* schedule : {"ring", "zigzag", "balanced"})
    for (const double factor : {0.8, 0.95, 1.0, 1.2, 3.0}) {
      const Plan plan = of_eight(schedule);
      const Picoseconds before = makespan_of(plan, setup), measured = times(before, factor);
      const Fit f = fit(plan, setup, measured);
      EXPECT_EQ(f.predicted, before);
      const Picoseconds after = makespan_of(plan, {f.machine, {}});
      EXPECT_NEAR(static_cast<double>(after.value), static_cast<double>(measured.value),
                  1e-3 * static_cast<double>(measured.value))
          << schedule << " x" << factor;
      EXPECT_TRUE(factor == 1 || (f.factor > 1) == (factor > 1)) << schedule << " x" << factor;
      EXPECT_EQ(f.within_spread(), std::max(f.factor, 1 / f.factor) - 1 <= f.spread);
      EXPECT_LE(f.left, f.spread);
    }
}

// A machine on which only kernels take time has only kernels to blame.
TEST(Fit, ScalesTheFigureThatLeavesThePredictionLeastSure) {
  Asked setup{find_machine("dgx-a100"), {}};
  setup.machine.fabric.link = {1e6, 0, {}};
  setup.machine.memory_gb_per_s = 1e6;
  setup.machine.launch_us = 0;
  setup.machine.comm_waits_for_kernel = false;
  setup.machine.comm_sms = 0;
  const Plan plan = of_eight("striped");
  const Fit kernels = fit(plan, setup, times(makespan_of(plan, setup), 1.3));
  EXPECT_EQ(kernels.figure, "attention kernels");
  EXPECT_NEAR(kernels.factor, 1.3, 0.01) << "time goes with them";
  EXPECT_NEAR(kernels.machine.kernels[0].tflops[0], setup.machine.kernels[0].tflops[0] / 1.3, 2);
  EXPECT_FALSE(kernels.within_spread());
  EXPECT_NEAR(kernels.sigmas(), 0.3 / kKernelSpread, 0.2);

  setup.machine.fabric.link = {20, 0, {}};  // where a step's keys take longer than its attends
  setup.machine.fabric.spread = 0.5;
  const Plan short_one = of_eight("ring", 8192);
  const Fit links = fit(short_one, setup, times(makespan_of(short_one, setup), 1.2));
  EXPECT_EQ(links.figure, "links");
  EXPECT_TRUE(links.within_spread());
}

// Twice as fast is as far off as half as fast. And a measurement leaves a figure as unsure as the
// others make the time, if the change is plausible.
TEST(Fit, NarrowsAPlausibleFigureAndNoOther) {
  Asked setup{find_machine("dgx-a100"), {}};
  setup.machine.fabric.spread = 1;
  setup.machine.fabric.link.gb_per_s = 10;
  const Plan plan = of_eight("ring", 16384);
  const Picoseconds now = makespan_of(plan, setup);
  const Fit slower = fit(plan, setup, times(now, 1.5)), faster = fit(plan, setup, times(now, 0.65));
  ASSERT_EQ(slower.figure, "links");
  ASSERT_EQ(faster.figure, "links");
  EXPECT_NEAR(faster.sigmas(), 1 / faster.factor - 1, 1e-9);
  EXPECT_LT(slower.left, 0.5);
  EXPECT_GT(slower.left, 0.5 * kModelSpread);
  EXPECT_EQ(slower.machine.fabric.spread, slower.left);
  EXPECT_EQ(slower.machine.kernels, setup.machine.kernels);
  const auto width = [&](const Machine& m) {
    const Workload w = price(plan, m);
    const Interval i = *interval(possible_makespans(w, m, {}, 64, 1));
    return static_cast<double>(i.high.value) / static_cast<double>(i.low.value);
  };
  EXPECT_LT(width(slower.machine), 0.6 * width(setup.machine));
  const Fit far = fit(plan, setup, times(now, 4));
  EXPECT_FALSE(far.within_spread());
  EXPECT_EQ(far.left, far.spread);
  EXPECT_EQ(far.machine.fabric.spread, 1);
}

// A figure that was certain does not become less so.
TEST(Fit, NeverWidensAFigure) {
  Asked setup{find_machine("dgx-a100"), {}};
  for (KernelTable& t : setup.machine.kernels) t.spread = 0.002;
  setup.machine.fabric = {};
  setup.machine.software.spread = 1e-6;
  const Plan plan = of_eight("striped");
  const Fit f = fit(plan, setup, times(makespan_of(plan, setup), 1.001));
  ASSERT_EQ(f.figure, "attention kernels");
  ASSERT_TRUE(f.within_spread());
  EXPECT_LE(f.left, 0.002);
  EXPECT_LE(f.machine.kernels[0].spread, 0.002);
}

// With several nodes, links inside them and between them are two figures.
TEST(Fit, TellsTheNetworkFromTheLinksInsideNodes) {
  const Asked setup{find_machine("hgx-h100x4-ib400"), {}};
  Problem p;
  p.workers = 32;
  p.tokens = {131072};
  const Plan plan =
      limit_communication(build_plan(p, find_schedule("ring")), {Overlap::Prefetch, 0});
  const Fit f = fit(plan, setup, times(makespan_of(plan, setup), 1.3));
  EXPECT_EQ(f.figure, "links between nodes");
  EXPECT_EQ(f.machine.fabric, setup.machine.fabric);
  EXPECT_LT(f.machine.network.link.gb_per_s, setup.machine.network.link.gb_per_s);
}

TEST(Fit, NamesWhatIsNotEnough) {
  Asked setup{find_machine("dgx-a100"), {}};
  setup.machine.fabric.spread = 1;
  setup.machine.fabric.link = {30, 0, {}};
  const Plan plan = of_eight("ring", 16384);
  const Fit f = fit(plan, setup, times(makespan_of(plan, setup), 0.6));
  EXPECT_EQ(f.figure, "attention kernels") << f.too_weak;
  EXPECT_THAT(f.too_weak, HasSubstr("links"));
}

TEST(Fit, RefusesWhatNoFigureExplains) {
  const Asked setup{find_machine("dgx-a100"), {}};
  const Plan plan = of_eight("zigzag");
  for (const std::int64_t ps : {std::int64_t{1'000'000}, std::int64_t{1'000'000'000'000'000}}) {
    try {
      fit(plan, setup, {ps});
      FAIL() << ps;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("with one figure of profile 'dgx-a100' 10x "));
      EXPECT_THAT(e.what(), testing::Not(HasSubstr("\n")));
    }
  }
}

// Of NCCL's thread blocks each takes an SM from the kernels beside it, and is a channel.
TEST(ThreadBlocks, CapTheSmsThatTransfersHoldAndTheChannelsOfMessages) {
  const Machine m = find_machine("dgx-a100");
  EXPECT_EQ(with_thread_blocks(m, 0), m);
  EXPECT_EQ(with_thread_blocks(m, 2).comm_sms, 2u);
  EXPECT_EQ(with_thread_blocks(m, 64), m);
  Machine many = m;
  many.comm_sms = 40;
  many.fabric.channel_gb_per_s = 0;  // all messages as fast, whatever NCCL may use
  const Plan plan = of_eight("zigzag");
  EXPECT_LT(makespan_of(plan, {with_thread_blocks(many, 2), {}}), makespan_of(plan, {many, {}}));
  Machine free = m;
  free.comm_sms = 1;  // as with one thread block
  EXPECT_GT(makespan_of(plan, {with_thread_blocks(free, 1), {}}), makespan_of(plan, {free, {}}));
  const auto first = [](const Machine& of, std::uint32_t ranks) {
    return link_among(of.fabric, ranks).messages.front().gb_per_s;
  };
  const double channel = m.fabric.channel_gb_per_s;
  EXPECT_DOUBLE_EQ(first(m, 8), 4 * channel);
  EXPECT_DOUBLE_EQ(first(with_thread_blocks(m, 16), 8), 2 * channel);
  EXPECT_DOUBLE_EQ(first(with_thread_blocks(m, 1), 8), channel);
}

// PyTorch makes them for sends and receives that are not in one batch.
TEST(Channels, OfACommunicatorOfTwoAreMore) {
  Machine m = find_machine("dgx-a100");
  m.fabric.link.gb_per_s = 1e4;
  const Plan plan = of_eight("ring");
  const auto longest_startup = [&] {
    const Workload w = price(plan, m);
    return std::ranges::max(w.startup[static_cast<std::size_t>(Distance::SameNode)]);
  };
  const std::int64_t among_all = longest_startup();
  m.software.pair_communicators = true;
  EXPECT_LT(longest_startup(), among_all / 3);
}

}  // namespace
}  // namespace ringsched
