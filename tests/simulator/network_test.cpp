// Routes, capacities and start-up times, each worked out by hand.
#include "ringsched/simulator/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> way(const Network& n, std::uint32_t from, std::uint32_t to) {
  std::vector<std::string> names;
  const Route route = n.route(WorkerId{from}, WorkerId{to});
  for (const LinkId l : route.over()) names.push_back(n.name(l));
  return names;
}

// GB/s of all links, by name.
std::map<std::string, double> capacities(const Network& n) {
  std::map<std::string, double> all;
  for (std::uint32_t l = 0; l < n.links(); ++l) all[n.name({l})] = n.capacity({l}) * 1000;
  return all;
}

double rate(const Network& n, std::uint32_t from, std::uint32_t to) {
  return 1000 * n.rate(n.route(WorkerId{from}, WorkerId{to}));
}

TEST(Network, OfASwitchHasALinkToItAndOneBackForEachDevice) {
  const Network n(test_machine(Fabric::Switch, 4), 4);
  EXPECT_EQ(n.links(), 8u);
  EXPECT_THAT(way(n, 1, 3), ElementsAre("device 1 out", "device 3 in"));
  EXPECT_THAT(way(n, 3, 1), ElementsAre("device 3 out", "device 1 in"));
  EXPECT_THAT(way(n, 2, 2), IsEmpty());
  for (const auto& [name, gb_per_s] : capacities(n)) EXPECT_DOUBLE_EQ(gb_per_s, 0.1) << name;
}

TEST(Network, OfASwitchWithACoreLeadsThroughIt) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.fabric.core_gb_per_s = 0.03;
  const Network n(m, 4);
  EXPECT_THAT(way(n, 1, 3), ElementsAre("device 1 out", "switch 0", "device 3 in"));
  EXPECT_DOUBLE_EQ(capacities(n)["switch 0"], 0.03);
  EXPECT_DOUBLE_EQ(rate(n, 1, 3), 0.03);
}

TEST(Network, OfAMeshHasALinkForEachPairAndDirection) {
  const Network n(test_machine(Fabric::Mesh, 3), 3);
  std::map<std::uint32_t, int> used;
  for (std::uint32_t a = 0; a < 3; ++a)
    for (std::uint32_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      EXPECT_THAT(way(n, a, b),
                  ElementsAre("device " + std::to_string(a) + " to " + std::to_string(b)));
      ++used[n.route(WorkerId{a}, WorkerId{b}).links[0].value];
      EXPECT_DOUBLE_EQ(rate(n, a, b), 0.1);
    }
  EXPECT_EQ(used.size(), 6u);
}

TEST(Network, OfPcieLeadsThroughTheHostOnlyBetweenSwitches) {
  Machine m = test_machine(Fabric::Pcie, 5);  // two to a switch
  const Network open(m, 5);
  EXPECT_THAT(way(open, 0, 1), ElementsAre("device 0 out", "device 1 in"));
  EXPECT_THAT(way(open, 1, 4),
              ElementsAre("device 1 out", "PCIe switch 0 out", "PCIe switch 2 in", "device 4 in"));
  EXPECT_DOUBLE_EQ(rate(open, 0, 1), 0.1);
  EXPECT_DOUBLE_EQ(rate(open, 1, 4), 0.07);
  EXPECT_EQ(open.links(), 5u + 5 + 3 + 3);
  m.fabric.host_gb_per_s = 0.02;
  const Network n(m, 5);
  EXPECT_THAT(way(n, 3, 0), ElementsAre("device 3 out", "PCIe switch 1 out", "host 0",
                                        "PCIe switch 0 in", "device 0 in"));
  EXPECT_DOUBLE_EQ(rate(n, 3, 0), 0.02);
  EXPECT_DOUBLE_EQ(rate(n, 3, 2), 0.1);
}

TEST(Network, OfOneMemoryTakesThatMemoryEvenOnOneDevice) {
  Machine m = test_machine(Fabric::Memory, 1);
  m.workers_per_device = 4;
  const Network n(m, 4);
  EXPECT_EQ(n.links(), 1u);
  EXPECT_THAT(way(n, 0, 3), ElementsAre("memory 0"));
  EXPECT_EQ(n.distance(WorkerId{0}, WorkerId{3}), Distance::SameDevice);
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::SameDevice, 100), 2e6);
}

TEST(Network, BetweenNodesLeadsFromNicToNic) {
  Machine m = test_machine(Fabric::Switch, 3);
  m.nodes = 2;
  m.network.nics = 2;
  m.network.link = {0.05, 7, {}};
  const Network n(m, 6);
  // Devices 0 and 1 of a node have its first NIC, device 2 the second: floor(d * 2 / 3).
  EXPECT_THAT(way(n, 0, 5), ElementsAre("NIC 0 out", "NIC 3 in"));
  EXPECT_THAT(way(n, 1, 3), ElementsAre("NIC 0 out", "NIC 2 in"));
  EXPECT_THAT(way(n, 2, 4), ElementsAre("NIC 1 out", "NIC 2 in"));
  EXPECT_THAT(way(n, 5, 0), ElementsAre("NIC 3 out", "NIC 0 in"));
  EXPECT_THAT(way(n, 3, 5), ElementsAre("device 3 out", "device 5 in"));
  EXPECT_DOUBLE_EQ(rate(n, 0, 5), 0.05);
  EXPECT_EQ(n.distance(WorkerId{0}, WorkerId{5}), Distance::OtherNode);
  EXPECT_EQ(n.distance(WorkerId{3}, WorkerId{5}), Distance::SameNode);
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::OtherNode, 100), 7e6);
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::SameNode, 100), 2e6);
}

TEST(Network, OversubscribedHasACoreOfThatShareOfAllNics) {
  Machine m = test_machine(Fabric::Mesh, 2);
  m.nodes = 3;
  m.network.nics = 2;
  m.network.link = {0.05, 7, {}};
  m.network.oversubscription = 4;
  const Network n(m, 6);
  EXPECT_THAT(way(n, 1, 4), ElementsAre("NIC 1 out", "network core", "NIC 4 in"));
  EXPECT_DOUBLE_EQ(capacities(n)["network core"], 6 * 0.05 / 4);
  EXPECT_THAT(way(n, 4, 5), ElementsAre("device 4 to 5"));
  EXPECT_THAT(way(n, 5, 4), ElementsAre("device 5 to 4"));
}

TEST(Network, PutsWorkersOnDevicesInOrderAndEvenly) {
  Machine m = test_machine(Fabric::Switch, 3);
  m.workers_per_device = 3;
  const Network n(m, 6);
  EXPECT_EQ(n.workers_per_device(), 2u);
  for (std::uint32_t w = 0; w < 6; ++w) EXPECT_EQ(n.device(WorkerId{w}), w / 2);
  EXPECT_THAT(way(n, 0, 1), IsEmpty());
  EXPECT_THAT(way(n, 1, 2), ElementsAre("device 0 out", "device 1 in"));
  // A copy on a device of 1000 GB/s reads and writes each byte.
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::SameDevice, 500), 1000);
  EXPECT_EQ(rate(n, 0, 1), std::numeric_limits<double>::infinity());
}

TEST(Network, RefusesMoreWorkersThanFit) {
  Machine m = test_machine(Fabric::Switch, 3);
  m.workers_per_device = 2;
  EXPECT_NO_THROW(Network(m, 6));
  try {
    Network(m, 7);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("7 workers do not fit on machine 'test': it has 3 devices with 2"));
  }
}

TEST(Network, OfTheIdealMachineHasNoLinksAndNoEnd) {
  const Network n(find_machine("ideal"), 1000);
  EXPECT_EQ(n.links(), 0u);
  EXPECT_THAT(way(n, 0, 999), IsEmpty());
  EXPECT_EQ(n.startup_ps(n.distance(WorkerId{0}, WorkerId{999}), 1e12), 0);
}

Network with_messages(double latency_us, std::vector<MessageRate> messages) {
  Machine m = test_machine(Fabric::Switch, 2);
  m.fabric.link = {100, latency_us, std::move(messages)};
  return Network(m, 2);
}

double takes_ps(const Network& n, double bytes) {
  return n.startup_ps(Distance::SameNode, bytes) + bytes / n.rate(n.route({0}, {1}));
}

TEST(Network, TakesForMessagesOfTheTableWhatTheTableSays) {
  const std::vector<MessageRate> table = {{1e4, 1}, {1e5, 8}, {1e7, 60}, {1e9, 99}};
  const Network n = with_messages(2, table);
  for (const MessageRate& m : table)
    EXPECT_NEAR(takes_ps(n, m.bytes), m.bytes / m.gb_per_s * 1000, 1e-9 * m.bytes * 1000);
  // Between two: halfway in the logarithm of size is the geometric mean of the rates.
  EXPECT_NEAR(takes_ps(n, 1e6), 1e6 / std::sqrt(8 * 60) * 1000, 1);
  // Beyond the last the start-up stays, and nothing takes but the latency.
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::SameNode, 5e9), n.startup_ps(Distance::SameNode, 1e9));
  EXPECT_DOUBLE_EQ(n.startup_ps(Distance::SameNode, 0), 2e6);
}

TEST(Network, NeverStartsUpFasterThanItsLatency) {
  const Network n = with_messages(50, {{1e4, 1}, {1e6, 99}});  // 10 us and 10.1 us by the table
  for (double bytes = 0; bytes < 1e8; bytes = bytes * 1.5 + 1)
    EXPECT_GE(n.startup_ps(Distance::SameNode, bytes), 50e6) << bytes;
}

TEST(Network, TakesLongerForLongerMessages) {
  std::vector<Network> networks;
  for (const double latency : {0.0, 2.0, 9.0, 50.0})
    networks.push_back(with_messages(latency, {{1e4, 1}, {1.1e4, 1.1}, {1e5, 8}, {1e7, 60}}));
  for (const MachineProfile& p : machine_profiles()) {
    const Machine m = find_machine(std::string(p.name));
    if (!m.ideal && m.devices_per_node > 1) networks.emplace_back(m, m.devices());
  }
  for (const Network& n : networks)
    for (double bytes = 1; bytes < 1e11; bytes *= 1.07)
      ASSERT_LT(takes_ps(n, bytes), takes_ps(n, bytes * 1.07)) << bytes;
}

}  // namespace
}  // namespace ringsched
