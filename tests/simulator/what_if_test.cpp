// Each change does to the machine what it says, and the prices follow.
#include "ringsched/simulator/what_if.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "exchange_prices.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/network.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Changed = Setup;  // a test has a member Setup

Setup a_setup(Fabric fabric = Fabric::Pcie) {
  Machine m = test_machine(fabric, 4);
  m.fabric.core_gb_per_s = 0.3;
  m.fabric.host_gb_per_s = 0.2;
  m.fabric.link.messages = {{100, 0.001}, {10000, 0.05}};
  m.nodes = 2;
  m.network.nics = 2;
  m.network.link = {0.05, 7, {{100, 0.0005}, {10000, 0.02}}};
  m.sms = 10;
  m.comm_sms = 3;
  m.comm_slowdown = 1.5;
  m.comm_waits_for_kernel = true;
  require_valid(m);
  return {m, {}};
}

Setup after(const char* change, const Setup& before = a_setup()) {
  Setup s = changed(before, change, 8);
  require_valid(s.machine);
  return s;
}

constexpr double kSizes[] = {0, 50, 100, 1000, 10000, 1e6};

TEST(WhatIf, BandwidthMultipliesEveryLink) {
  for (const Fabric fabric : {Fabric::Pcie, Fabric::Switch, Fabric::Mesh, Fabric::Memory}) {
    const Network before(a_setup(fabric).machine, 8);
    const Network twice(after("bandwidth=2x", a_setup(fabric)).machine, 8);
    ASSERT_EQ(before.links(), twice.links());
    for (std::uint32_t l = 0; l < before.links(); ++l)
      EXPECT_DOUBLE_EQ(twice.capacity({l}), 2 * before.capacity({l})) << before.name({l});
    // Start-up stays, that which a table of rates implies, too.
    for (const Distance d : {Distance::SameNode, Distance::OtherNode}) {
      for (const double bytes : {0.0, 100.0, 10000.0, 1e6})
        EXPECT_NEAR(twice.startup_ps(d, bytes), before.startup_ps(d, bytes), 1) << bytes;
    }
  }
}

// A message goes at the rate of its channels, or of its link if that is less.
TEST(WhatIf, ChannelsAndLinksLimitMessagesApart) {
  const Changed now{find_machine("hgx-h100"), {}};
  const auto rate = [&](const char* change, double bytes) {
    const Machine m = *change == 0 ? now.machine : changed(now, change, 8).machine;
    const LinkFigures link = link_among(m.fabric, 8);
    for (const MessageRate& r : link.messages)
      if (bytes <= r.bytes) return r.gb_per_s;
    return link.gb_per_s;
  };
  const FabricFigures& f = now.machine.fabric;
  constexpr double few = 1 << 20, many = 1e9;  // bytes: four channels, all channels
  EXPECT_DOUBLE_EQ(rate("", few), 4 * f.channel_gb_per_s);
  EXPECT_DOUBLE_EQ(rate("", many), f.link.gb_per_s);
  EXPECT_DOUBLE_EQ(rate("channels=2x", few), 8 * f.channel_gb_per_s);
  EXPECT_DOUBLE_EQ(rate("channels=2x", many), f.link.gb_per_s);
  for (const char* change : {"bandwidth=2x", "fabric=2x"}) {
    EXPECT_DOUBLE_EQ(rate(change, few), 4 * f.channel_gb_per_s) << change;
    EXPECT_GT(rate(change, many), 1.2 * f.link.gb_per_s) << change;
  }
  EXPECT_DOUBLE_EQ(rate("latency=0x", few), 4 * f.channel_gb_per_s);
  // Each takes an SM, up to as many as fill the link.
  const auto channels = [&](double more, double bytes) {
    FabricFigures g = f;
    g.more_channels = more;
    return channels_of(g, 8, bytes);
  };
  EXPECT_EQ(channels(1, few), 4u);
  EXPECT_EQ(channels(2, few), 8u);
  EXPECT_EQ(channels(0.5, few), 2u);
  EXPECT_EQ(channels(100, few), f.channels);
  EXPECT_EQ(channels(2, many), channels(1, many));
  Machine measured = now.machine;
  measured.fabric.link.messages = {{1024, 10}};
  try {
    changed({measured, {}}, "channels=2x", 8);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("do not go by channels"));
  }
}

// Links inside nodes, and between them.
TEST(WhatIf, FabricAndNetworkTogetherAreTheBandwidth) {
  const Changed now{find_machine("hgx-h100x4-ib400"), {}};
  const Machine fabric = changed(now, "fabric=2x", 32).machine;
  const Machine network = changed(now, "network=2x", 32).machine;
  EXPECT_EQ(fabric.network, now.machine.network);
  EXPECT_EQ(network.fabric, now.machine.fabric);
  EXPECT_EQ(network.network.link.gb_per_s, 2 * now.machine.network.link.gb_per_s);
  EXPECT_EQ(changed(changed(now, "fabric=2x", 32), "network=2x", 32).machine,
            changed(now, "bandwidth=2x", 32).machine);
  EXPECT_THROW(changed({find_machine("hgx-h100"), {}}, "network=2x", 8), Error);
}

TEST(WhatIf, LatencyMultipliesWhatMessagesTakeBeyondTheirBytes) {
  for (const double by : {0.0, 0.5, 2.0}) {
    const Network before(a_setup().machine, 8);
    const Network slower(after(("latency=" + std::to_string(by) + "x").c_str()).machine, 8);
    for (const Distance d : {Distance::SameNode, Distance::OtherNode})
      for (const double bytes : {0.0, 50.0, 100.0, 10000.0, 1e6})
        EXPECT_NEAR(slower.startup_ps(d, bytes), by * before.startup_ps(d, bytes), 1) << bytes;
    for (std::uint32_t l = 0; l < before.links(); ++l)
      EXPECT_EQ(slower.capacity({l}), before.capacity({l}));
  }
  const Network none(after("latency=0x").machine, 8);
  for (const double bytes : kSizes)
    EXPECT_NEAR(none.startup_ps(Distance::SameNode, bytes), 0, 1) << bytes;
}

// Also between two points of its table that lie far apart.
TEST(WhatIf, WithoutLatencyACollectiveSavesItsStartUpAtAnySize) {
  auto s = a_setup();
  s.machine.fabric.link.latency_us = 25;
  s.machine.collectives = {{.kind = ExchangeForm::AllToAll,
                            .per_node = 4,
                            .busbw = {{1 << 20, 10}, {std::pow(2, 32), 10}},
                            .source = ""}};
  const CollectiveTable now = s.machine.collectives[0];
  const CollectiveTable none = changed(s, "latency=0x", 8).machine.collectives[0];
  for (double bytes = 1 << 20; bytes <= std::pow(2, 32); bytes *= 3) {
    const double moved = 0.75 * bytes;
    EXPECT_NEAR(collective_ps(now, 4, moved, 0) - collective_ps(none, 4, moved, 0), 25e6, 3e6)
        << bytes;
  }
}

TEST(WhatIf, KernelsAndMemoryMultiplyRatesOfTheirOwn) {
  const Machine before = a_setup().machine;
  const Machine kernels = after("kernels=4x").machine;
  EXPECT_EQ(kernels.kernels[0].tflops[0], 4 * before.kernels[0].tflops[0]);
  auto sustained = a_setup();
  sustained.machine.kernels[0].sustained_tflops = 3;
  EXPECT_EQ(after("kernels=4x", sustained).machine.kernels[0].sustained_tflops, 12);
  EXPECT_EQ(kernels.memory_gb_per_s, before.memory_gb_per_s);
  const Machine memory = after("memory=0.5x").machine;
  EXPECT_EQ(memory.memory_gb_per_s, before.memory_gb_per_s / 2);
  EXPECT_EQ(memory.kernels[0].tflops[0], before.kernels[0].tflops[0]);
}

// What a table's kernels do beside their products took the time of the memory that they ran on.
TEST(WhatIf, FasterMemoryMakesNothingSlower) {
  for (const char* name : {"dgx-a100", "hgx-h100", "hgx-b200"})
    for (const char* schedule : {"ring", "all-gather:stride=1", "ulysses"})
      for (const std::int64_t tokens : {8192, 65536}) {
        Problem p;
        p.tokens = {tokens};
        p.pass = Pass::Backward;
        const Plan plan =
            limit_communication(build_plan(p, find_schedule(schedule)), {Overlap::None, 0});
        std::int64_t before = simulate(price(plan, find_machine(name))).makespan.value;
        for (const char* change : {"memory=2x", "memory=100x"}) {
          const Machine m = changed({find_machine(name), {}}, change, 8).machine;
          const std::int64_t now = simulate(price(plan, m)).makespan.value;
          EXPECT_LE(now, before) << name << " " << schedule << " " << tokens << " " << change;
          EXPECT_EQ(read_machine(to_toml(m), "again.toml"), m);
          before = now;
        }
      }
}

TEST(WhatIf, CommunicationWithoutSmsDoesNotDisturbKernels) {
  const Machine none = after("communication-sms=0").machine;
  EXPECT_EQ(none.comm_sms, 0u);
  EXPECT_EQ(none.comm_slowdown, 1);
  EXPECT_FALSE(none.comm_waits_for_kernel);
  const Plan plan = build_plan(small_problem(8, 80), find_schedule("ring"));
  EXPECT_TRUE(price(plan, none).slowed[0].empty());
  const Machine four = after("communication-sms=4").machine;
  EXPECT_EQ(four.comm_sms, 4u);
  EXPECT_EQ(four.comm_slowdown, 1);
  EXPECT_TRUE(four.comm_waits_for_kernel);
}

TEST(WhatIf, AWorkerTakesSoManyTimesAsLong) {
  const Conditions c = after("worker:3=2x").conditions;
  EXPECT_THAT(c.slow_worker, testing::ElementsAre(1, 1, 1, 2, 1, 1, 1, 1));
  // Changes add up.
  const auto twice = after("worker:3=2x", after("worker:3=1.5x", after("worker:0=0")));
  EXPECT_THAT(twice.conditions.slow_worker, testing::ElementsAre(0, 1, 1, 3, 1, 1, 1, 1));
  const Plan plan =
      build_plan(small_problem(8, 80, Pass::Forward, Mask::full()), find_schedule("ring"));
  const Workload w = price(plan, find_machine("ideal"));
  EXPECT_EQ(simulate(w, c).makespan.value, 2 * simulate(w).makespan.value);
}

TEST(WhatIf, AllThatAreListedAreKnown) {
  EXPECT_EQ(known_changes().size(), 10u);
  for (const KnownChange& k : known_changes()) {
    Machine machine = find_machine("hgx-h100x4-ib400");
    machine.software.host.post_us = 30;
    EXPECT_NO_THROW(changed({machine, {}}, k.name, 8)) << k.name;
  }
}

TEST(WhatIf, AHostTwiceAsFastTakesHalfOfEachOfItsTimes) {
  Machine m = find_machine("dgx-a100");
  HostFigures& h = m.software.host;
  for (double* us : {&h.call_us, &h.call_backward_us, &h.attend_us, &h.attend_backward_us,
                     &h.merge_us, &h.slice_us, &h.pass_us, &h.post_us, &h.exchange_us, &h.step_us,
                     &h.synchronise_us, &h.graph_us, &h.graph_node_us})
    *us = 8;
  const HostFigures half = changed({m, {}}, "host=2x", 8).machine.software.host;
  for (const double us :
       {half.call_us, half.call_backward_us, half.attend_us, half.attend_backward_us, half.merge_us,
        half.slice_us, half.pass_us, half.post_us, half.exchange_us, half.step_us,
        half.synchronise_us, half.graph_us, half.graph_node_us})
    EXPECT_EQ(us, 4);
}

struct Refusal {
  const char* change;
  const char* says;
  const char* machine = nullptr;
};

void PrintTo(const Refusal& r, std::ostream* out) { *out << r.change; }

class RefusedChange : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedChange, IsAnsweredInOneLineByWhatIsAllowed) {
  const auto& [change, says, machine] = GetParam();
  auto s = a_setup();
  if (machine != nullptr) s.machine = find_machine(machine);
  try {
    changed(s, change, 8);
    FAIL() << change;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(says));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
}

const Refusal kRefusals[] = {
    {"bandwidth", "use NAME=FACTOR, such as bandwidth=2x"},
    {"", "use NAME=FACTOR"},
    {"bandwith=2x", "did you mean bandwidth?"},
    {"bandwidth\n=2x", "unknown --what-if change"},
    {"bandwidth=2x\n", "use a factor from 0 to 1000000"},
    {"bandwidth=", "use a factor from 0 to 1000000"},
    {"bandwidth=x", "use a factor from 0 to 1000000"},
    {"bandwidth=2xx", "use a factor from 0 to 1000000"},
    {"bandwidth=-1x", "use a factor from 0 to 1000000"},
    {"bandwidth=nan", "use a factor from 0 to 1000000"},
    {"bandwidth=inf", "use a factor from 0 to 1000000"},
    {"bandwidth=1e7x", "from 0 to 1000000"},
    {"bandwidth=0x", "must be above 0"},
    {"kernels=0x", "must be above 0"},
    {"memory=0", "must be above 0"},
    {"latency=-1", "use a factor from 0 to 1000000"},
    {"communication-sms=1.5", "use a whole number below 10, the SMs"},
    {"communication-sms=10", "use a whole number below 10, the SMs"},
    {"worker:8=2x", "the worker must be 0 to 7"},
    {"worker:=2x", "the worker must be 0 to 7"},
    {"worker:-1=2x", "the worker must be 0 to 7"},
    {"worker:1\n2=2x", "the worker must be 0 to 7"},
    {"worker=2x", "--what-if worker=2x: which worker? Write, for example, worker:3=2x"},
    {"bandwidth=2x", "machine 'ideal' has no such figure, as it only counts blocks", "ideal"},
    {"latency=0x", "machine 'ideal' has no such figure, as it only counts blocks", "ideal"},
    {"kernels=2x", "machine 'ideal' has no such figure, as it only counts blocks", "ideal"},
    {"memory=2x", "machine 'ideal' has no such figure, as it only counts blocks", "ideal"},
    {"communication-sms=0", "machine 'ideal' has no such figure, as it only counts blocks",
     "ideal"},
};

INSTANTIATE_TEST_SUITE_P(WhatIf, RefusedChange, testing::ValuesIn(kRefusals));

}  // namespace
}  // namespace ringsched
