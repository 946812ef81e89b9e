// Draws of a machine's figures: shared by plans, reproducible, and as wide as the figures are
// uncertain.
#include "ringsched/simulator/uncertainty.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringsched/machine/datasheet.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

Plan planned(const char* schedule, Pass pass = Pass::Forward) {
  return limit_communication(build_plan(small_problem(4, 256, pass), find_schedule(schedule)),
                             {Overlap::Prefetch, 0});
}

TEST(Uncertainty, WithoutADeviationChangesNothing) {
  for (const auto& [name, machine] : test_machines(4)) {
    const Plan plan = planned("zigzag", Pass::Both);
    const Workload w = price(plan, machine);
    Conditions same;
    same.deviation.model = 2;  // of the makespan, for whoever reports it
    EXPECT_EQ(simulate(w, same).makespan, simulate(w).makespan) << name;
  }
}

// What takes all the time decides by how much the whole is off.
TEST(Uncertainty, GoesWithWhatTakesTheTime) {
  const Plan plan = planned("ring");
  Machine slow_kernels = test_machine(Fabric::Mesh, 4);
  for (KernelTable& k : slow_kernels.kernels) k.tflops = {1e-6};
  Conditions twice;
  for (auto& pass : twice.deviation.attend)
    for (double& form : pass) form = 2;
  const Workload kernels = price(plan, slow_kernels);
  EXPECT_NEAR(static_cast<double>(simulate(kernels, twice).makespan.value) /
                  static_cast<double>(simulate(kernels).makespan.value),
              2, 0.01);
  Machine slow_links = test_machine(Fabric::Mesh, 4);
  slow_links.fabric.link = {1e-5, 0, {}};
  const Workload links = price(plan, slow_links);
  Conditions more_bytes;
  more_bytes.deviation.bytes = 3;
  EXPECT_NEAR(static_cast<double>(simulate(links, more_bytes).makespan.value) /
                  static_cast<double>(simulate(links).makespan.value),
              3, 0.01);
  Machine slow_host = test_machine(Fabric::Mesh, 4);
  slow_host.software.host.post_us = 1e6;
  const Workload host = price(plan, slow_host);
  Conditions slower_host;
  slower_host.deviation.host = 1.5;
  EXPECT_NEAR(static_cast<double>(simulate(host, slower_host).makespan.value) /
                  static_cast<double>(simulate(host).makespan.value),
              1.5, 0.01);
}

TEST(Uncertainty, EnginesAgreeUnderADeviation) {
  for (const auto& [name, machine] : test_machines(4)) {
    const Plan plan = planned("striped", Pass::Both);
    const Workload w = price(plan, machine);
    Conditions c;
    c.deviation = Draws(machine, plan.schedule, 1)(3);
    Conditions by_events = c;
    by_events.events_only = true;
    EXPECT_EQ(simulate(w, c).makespan, simulate(w, by_events).makespan) << name;
  }
}

TEST(Uncertainty, DrawsAreSharedOnOneMachineAndDifferOnOthers) {
  const Machine a = find_machine("dgx-a100"), b = find_machine("hgx-h100");
  const Deviation first = Draws(a, "ring", 1)(0), other = Draws(a, "zigzag", 1)(0);
  EXPECT_EQ(first.attend[0][0], other.attend[0][0]);
  EXPECT_EQ(first.bytes, other.bytes);
  EXPECT_NE(first.model, other.model);  // what the model leaves out is the schedule's own
  EXPECT_NE(first.bytes, Draws(b, "ring", 1)(0).bytes);
  EXPECT_NE(first.bytes, Draws(a, "ring", 1)(1).bytes);
  EXPECT_NE(first.bytes, Draws(a, "ring", 2)(0).bytes);
}

// Whoever measured a figure measured it for all profiles that quote the source.
TEST(Uncertainty, FiguresOfOneSourceAreOffTogetherOnAllMachines) {
  const Deviation one = Draws(find_machine("dgx-a100"), "ring", 1)(0);
  const Deviation two = Draws(find_machine("dgx-a100x2-ib200"), "ring", 1)(0);
  const Deviation slow = Draws(find_machine("dgx-a100x2-ib100"), "ring", 1)(0);
  EXPECT_EQ(one.attend[0][0], two.attend[0][0]);
  EXPECT_EQ(one.bytes, two.bytes);
  EXPECT_NE(two.bytes_between, slow.bytes_between);
  EXPECT_NE(two.bytes_between, two.bytes);
  Machine other = find_machine("dgx-a100");
  other.fabric.source = "another test of its links";
  EXPECT_NE(Draws(other, "ring", 1)(0).bytes, one.bytes);
}

// Else the interval of few draws would lie beside the prediction.
TEST(Uncertainty, DrawsComeInPairsAroundTheFigures) {
  const Machine m = find_machine("dgx-a100");
  const Deviation up = Draws(m, "ring", 1)(4), down = Draws(m, "ring", 1)(5);
  EXPECT_NEAR(up.bytes * down.bytes, 1, 1e-12);
  EXPECT_NEAR(up.model * down.model, 1, 1e-12);
  EXPECT_EQ(up.doubt, -down.doubt);
}

// Whatever the seed: a few random numbers would be all small for some of them, or alike for two
// figures.
TEST(Uncertainty, FiguresDeviateByTheirSpreadsAndIndependentlyOverABlockOfDraws) {
  Machine m = find_machine("dgx-a100");
  m.fabric.spread = 0.03;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Draws drawn(m, "ring", seed);
    for (const std::uint32_t block : {0u, 1u}) {
      double doubt = 0, links = 0, both = 0, model = 0;
      for (std::uint32_t i = block * kBlockOfDraws; i < (block + 1) * kBlockOfDraws; ++i) {
        const Deviation d = drawn(i);
        // What makes a figure 1 + x times as slow is x.
        const auto x = [](double factor) { return factor > 1 ? factor - 1 : 1 - 1 / factor; };
        doubt += d.doubt * d.doubt / kBlockOfDraws;
        links += x(d.bytes) * x(d.bytes) / kBlockOfDraws;
        model += x(d.model) * x(d.model) / kBlockOfDraws;
        both += d.doubt * x(d.bytes) / kBlockOfDraws;
      }
      EXPECT_NEAR(doubt, 1, 1e-9);
      EXPECT_NEAR(std::sqrt(links), 0.03, 1e-9);
      EXPECT_NEAR(std::sqrt(model), kModelSpread, 1e-9);
      EXPECT_NEAR(both, 0, 1e-9);
    }
  }
}

TEST(Uncertainty, IntervalsHardlyDependOnTheSeed) {
  const Machine m = find_machine("dgx-a100x2-ib200");
  const Plan plan = limit_communication(
      build_plan(small_problem(16, 131072, Pass::Both), find_schedule("zigzag")),
      {Overlap::Prefetch, 0});
  const Workload w = price(plan, m);
  double least = 1e300, most = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Conditions c;
    c.seed = seed;
    const Interval i = *interval(possible_makespans(w, m, c, draws_for(m, plan.tasks.size()), 1));
    const auto width = static_cast<double>((i.high - i.low).value);
    least = std::min(least, width);
    most = std::max(most, width);
  }
  EXPECT_LT(most, 1.1 * least);
}

TEST(Uncertainty, DrawsAWholeBlockUnlessThePlanIsLarge) {
  const Machine m = find_machine("dgx-a100");
  EXPECT_EQ(draws_for(m, 5'000), kBlockOfDraws);
  EXPECT_EQ(draws_for(m, 5'001), 16u);
  EXPECT_EQ(draws_for(m, 200'000), 16u);
  EXPECT_EQ(draws_for(m, 200'001), 0u);
  EXPECT_EQ(draws_for(find_machine("ideal"), 100), 0u);
}

// A host that only attends is as uncertain as its attends; one with four kinds of calls is less so,
// as some take longer than their figures say and others shorter.
TEST(Uncertainty, OfTheHostShrinksWithKindsOfCalls) {
  Machine m = find_machine("dgx-a100");
  m.software.host.spread = 0.1;
  const auto deviation = [&](const HostShares& shares) {
    double squares = 0;
    constexpr int n = 4000;
    for (int i = 0; i < n; ++i) {
      const double x = std::log(Draws(m, "ring", 1, shares)(static_cast<std::uint32_t>(i)).host);
      squares += x * x;
    }
    return std::sqrt(squares / n);
  };
  EXPECT_NEAR(deviation({1, 0, 0, 0}), 0.1 * std::sqrt(1 + 0.25), 0.008);
  EXPECT_NEAR(deviation({0.25, 0.25, 0.25, 0.25}), 0.1 * std::sqrt(0.25 + 0.25), 0.008);
}

TEST(Uncertainty, HostSharesAreThoseOfTheIssueTimes) {
  const Plan plan = planned("ring");
  SoftwareFigures s;
  EXPECT_EQ(host_shares(plan, s).attends, 1);  // no host at all
  s.host.attend_us = 30;
  s.host.step_us = 10;
  const HostShares two = host_shares(plan, s);
  // Ring on 4 workers: the last one attends at each of 4 steps.
  EXPECT_NEAR(two.attends, 0.75, 1e-9);
  EXPECT_NEAR(two.steps, 0.25, 1e-9);
  s.host.post_us = 1e6;
  EXPECT_GT(host_shares(plan, s).messages, 0.99);
  s.host.graph_us = 1;  // one launch, whatever the calls
  EXPECT_EQ(host_shares(plan, s).steps, 1);
  EXPECT_EQ(host_shares(plan, s).messages, 0);
}

TEST(Uncertainty, OfAFigureIsAsLargeAsTheProfileSays) {
  Machine m = find_machine("dgx-a100");
  m.fabric.spread = 0.03;
  double sum = 0, squares = 0;
  constexpr int n = 4000;
  for (int i = 0; i < n; ++i) {
    const double x = Draws(m, "ring", 1)(static_cast<std::uint32_t>(i)).bytes;
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n;
  EXPECT_NEAR(mean, 1, 0.003);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), 0.03, 0.002);
}

TEST(Uncertainty, HoldsFourFifthsOfWhatIsNormal) {
  const Plan plan = planned("zigzag");
  const Machine m = test_machine(Fabric::Switch, 4);
  const Workload w = price(plan, m);
  const std::vector<Picoseconds> all = possible_makespans(w, m, {}, 1000, 2);
  EXPECT_EQ(all, possible_makespans(w, m, {}, 1000, 1));
  const Interval i = *interval(all);
  std::size_t inside = 0;
  for (const Picoseconds p : all) inside += i.low <= p && p <= i.high ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(inside), 800, 40);
  EXPECT_LT(i.low, simulate(w).makespan);
  EXPECT_GT(i.high, simulate(w).makespan);
}

// However unsure a kernel is, no draw is faster than its device.
TEST(Uncertainty, NoDrawBeatsThePeak) {
  Machine m = machine_of({.gpu = "h20"});
  for (KernelTable& t : m.kernels) t.spread = 0.6;
  Problem p;
  p.workers = 1;
  p.tokens = {32768};
  p.mask = Mask::full();
  const Plan plan = build_plan(p, find_schedule("ring"));
  const Workload w = price(plan, m);
  const double flops = 4.0 * 128 * 32 * 32768 * 32768, least = flops / peak_tflops(m);
  int at_peak = 0;
  for (const Picoseconds t : possible_makespans(w, m, {}, 64, 1)) {
    EXPECT_GT(static_cast<double>(t.value), least / 1.15);  // the model's own error is 3%
    at_peak += static_cast<double>(t.value) < 1.1 * least ? 1 : 0;
  }
  EXPECT_GT(at_peak, 10);
}

// What no table has is named, and makes the interval wider.
TEST(Uncertainty, WhatIsExtrapolatedIsNamedAndWidensTheInterval) {
  const auto sure = [](const char* schedule, const Machine& m, auto... change) {
    Problem p = small_problem(4, 16384);
    p.heads = p.kv_heads = 32;
    p.head_dim = 128;
    (change(p), ...);
    const Plan plan =
        limit_communication(build_plan(p, find_schedule(schedule)), {Overlap::Prefetch, 0});
    const Workload w = price(plan, m);
    const Interval i = *interval(possible_makespans(w, m, {}, 400, 1));
    const double width = static_cast<double>(i.high.value) / static_cast<double>(i.low.value) - 1;
    return std::pair(width, w.extrapolated);
  };
  using Names = std::set<std::string>;
  Machine m = find_machine("hgx-h100");
  m.fabric.channel_gb_per_s = 0;
  const auto [usual, none] = sure("ring", m);
  EXPECT_EQ(none, Names{});

  const auto [derived, dims] = sure("ring", m, [](Problem& p) { p.head_dim = 96; });
  EXPECT_EQ(dims, (Names{"forward kernels of head dimension 96 (from 128)"}));
  EXPECT_GT(derived, 1.2 * usual);
  Machine silent = m;
  silent.flops_per_clock = 0;  // the nearest table as it is
  EXPECT_GT(sure("ring", silent, [](Problem& p) { p.head_dim = 96; }).first, 1.2 * derived);

  Machine full = m;
  std::erase_if(full.kernels, [](const KernelTable& t) { return t.shape == TileShape::Causal; });
  const auto [borrowed, shapes] = sure("striped", full);
  EXPECT_EQ(shapes, (Names{"forward causal attends (from full ones)"}));
  EXPECT_GT(borrowed, 1.1 * sure("striped", m).first);

  const auto [few, tiles] = sure("ring", m, [](Problem& p) { p.tokens = {2048}; });
  EXPECT_EQ(tiles, (Names{"forward attends of fewer tokens than the 2048 measured"}));

  // A window within a tile leaves a band, which no causal mask does.
  const auto window = [](Problem& p) { p.mask = parse_mask("window:1000"); };
  EXPECT_EQ(sure("ring", m, window).second,
            (Names{"forward attends under a window (rate from causal kernels)"}));
  const auto prefix = [](Problem& p) { p.mask = parse_mask("prefix:100,window:1000"); };
  const Names cut = {
      "forward attends of blocks off the diagonal that the mask hides in part (from causal ones)"};
  EXPECT_EQ(sure("ring", m, prefix).second, cut);

  Machine measured = m;
  measured.fabric.link.messages = {{1e9, 300}};
  EXPECT_EQ(sure("ring", measured).second, (Names{"messages shorter than any measured"}));

  Machine of_eight = m;
  std::erase_if(of_eight.collectives, [](const CollectiveTable& t) { return t.per_node != 8; });
  EXPECT_EQ(sure("all-gather", of_eight).second,
            (Names{"all-gather of 4 workers in a node (from the table for 8)"}));
  EXPECT_EQ(sure("all-gather", m).second, Names{});
  EXPECT_THAT(sure("usp:ulysses=2", m).second,
              testing::Contains("2 simultaneous all-to-alls (from the table for one)"));
  Machine untold = m;
  untold.collectives.clear();
  EXPECT_EQ(sure("all-gather", untold).second, (Names{"all-gather (from link speeds)"}));
}

// A measurement's own noise adds to what the figures leave open, as independent errors do.
TEST(Uncertainty, NoiseOfAMeasurementAddsInQuadrature) {
  std::vector<double> values;
  for (int i = 0; i < 16; ++i)
    for (const double f : {1.03, 1 / 1.03}) values.push_back(f);
  const Range sure = *range_80(values), noisy = *range_80(values, 0.04);
  EXPECT_NEAR(sure.high, 1 + 1.2816 * 0.03, 0.002);
  EXPECT_NEAR(noisy.high, 1 + 1.2816 * 0.05, 0.002);
  EXPECT_NEAR(noisy.low * noisy.high, 1, 0.002);
}

TEST(Uncertainty, ComparesByDraw) {
  const auto ps = [](std::vector<std::int64_t> values) {
    std::vector<Picoseconds> out;
    for (const std::int64_t v : values) out.push_back({v});
    return out;
  };
  EXPECT_EQ(beats(ps({1, 2, 3, 4}), ps({2, 3, 4, 5})), 1);
  EXPECT_EQ(beats(ps({1, 9, 3, 9}), ps({2, 3, 4, 5})), 0.5);
  EXPECT_EQ(beats(ps({1, 2}), ps({1, 2})), 0.5);
  EXPECT_FALSE(interval(ps({5})).has_value());
  EXPECT_EQ(interval(ps({20, 22}), Picoseconds{10})->low, Picoseconds{10});
}

}  // namespace
}  // namespace ringsched
