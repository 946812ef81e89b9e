// Machines from datasheets: the tables of parts, and the machines made from them.
#include "ringsched/machine/datasheet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;

// The numbers of each entry of a file, by other means than the reader's.
std::map<std::string, std::map<std::string, double>> numbers_of(const std::string& file) {
  std::map<std::string, std::map<std::string, double>> out;
  for (const MachineProfile& p : datasheet_parts()) {
    if (p.name != file) continue;
    std::istringstream lines{std::string(p.toml)};
    std::string line, entry;
    std::smatch found;
    while (std::getline(lines, line)) {
      if (std::regex_match(line, found, std::regex("\\[(.*)\\]"))) entry = found[1];
      if (std::regex_match(line, found, std::regex("(\\w+) = ([0-9.]+)")))
        out[entry][found[1]] = std::stod(found[2]);
    }
  }
  return out;
}

std::string error_of(const DatasheetMachine& d) {
  try {
    machine_of(d);
  } catch (const Error& e) {
    return e.what();
  }
  return "it was made";
}

// The peak, the SMs and their clock come from different rows of a datasheet.
TEST(DatasheetMachine, TakesNamesInCapitals) {
  EXPECT_EQ(machine_of({.gpu = "L20", .link = "PCIE4"}).name,
            machine_of({.gpu = "l20", .link = "pcie4"}).name);
  EXPECT_EQ(error_of({.gpu = "L21"}).substr(0, 39), "unknown GPU 'l21'; did you mean l20? (k");
}

TEST(DatasheetMachine, HasAPeakThatFollowsFromSmsAndClock) {
  const auto gpus = numbers_of("gpus");
  EXPECT_GE(gpus.size(), 13u);
  for (const auto& [name, of] : gpus) {
    const double peak = of.at("sms") * of.at("flops_per_clock") * of.at("clock_ghz") * 1e-3;
    EXPECT_NEAR(peak, of.at("tflops"), 0.02 * of.at("tflops")) << name;
  }
}

TEST(DatasheetMachine, IsMadeOfEveryGpuAndEveryPart) {
  for (const DatasheetPart& gpu : known_gpus()) {
    for (const std::uint32_t n : {1u, 2u, 4u, 8u}) {
      const Machine m = machine_of({.gpu = gpu.name, .gpus = n});
      EXPECT_EQ(m.devices(), n);
      EXPECT_TRUE(check_machine(to_toml(m), "new.toml").errors.empty()) << gpu.name;
      EXPECT_GT(m.kernels.at(0).spread, 0) << gpu.name;
      EXPECT_GT(m.fabric.spread, 0) << gpu.name;
    }
    for (const DatasheetPart& nic : known_nics())
      EXPECT_EQ(machine_of({.gpu = gpu.name, .gpus = 8, .nodes = 4, .nic = nic.name, .nics = 2})
                    .network.nics,
                2u);
  }
  for (const DatasheetPart& link : known_links())
    EXPECT_EQ(
        machine_of({.gpu = link.name == "xgmi" ? "mi300x" : "a100", .link = link.name}).devices(),
        8u)
        << link.name;
}

TEST(DatasheetMachine, HasTheFiguresOfItsParts) {
  const auto gpus = numbers_of("gpus"), links = numbers_of("links"), nics = numbers_of("nics");
  const Machine m = machine_of({.gpu = "h800", .nodes = 2, .nic = "ib400"});
  EXPECT_EQ(m.name, "2xh800x8-nvlink4-ib400");
  EXPECT_EQ(m.sms, 132u);
  EXPECT_EQ(m.memory_gb, 80);
  EXPECT_LT(m.memory_gb_per_s, gpus.at("h800").at("memory_gb_per_s"));
  EXPECT_EQ(m.fabric.link.gb_per_s, 8 * links.at("nvlink4").at("gb_per_s")) << "8 of 18 links";
  EXPECT_EQ(m.network.link.gb_per_s, nics.at("ib400").at("gb_per_s"));
  EXPECT_EQ(m.network.nics, 8u);
  EXPECT_LT(m.kernels.at(0).tflops.at(0), gpus.at("h800").at("tflops"));
  EXPECT_FALSE(m.kernels.at(0).backward);
  EXPECT_TRUE(m.kernels.at(1).backward);
  const double ratio = machine_of({.gpu = "h100"}).fabric.link.gb_per_s / m.fabric.link.gb_per_s;
  EXPECT_NEAR(ratio, 18 / 8.0, 1e-9);
}

// All-to-alls of more than two GPUs hinder each other over PCIe.
TEST(DatasheetMachine, HasTablesOfAllToAllsOverPcie) {
  const auto links = numbers_of("links");
  const auto tables = [](std::uint32_t gpus, const char* link) {
    return machine_of({.gpu = "l40", .gpus = gpus, .link = link}).collectives;
  };
  EXPECT_TRUE(tables(2, "pcie4").empty());
  EXPECT_EQ(tables(4, "pcie4").size(), 1u);
  EXPECT_TRUE(tables(8, "pcie4-host").empty());
  for (const std::uint32_t gpus : {3u, 5u, 8u}) {
    const std::vector<CollectiveTable> all = tables(gpus, "pcie4");
    const auto& link = links.at("pcie4");
    ASSERT_EQ(all.size(), gpus > 4 ? 2u : 1u);
    EXPECT_EQ(all[0].per_node, std::min(4u, gpus));
    EXPECT_EQ(all[0].kind, ExchangeForm::AllToAll);
    EXPECT_NEAR(all[0].busbw.back().gb_per_s, link.at("gb_per_s") * link.at("all_to_all_of_4"),
                0.06);
    EXPECT_EQ(all[0].spread, link.at("spread_of_4"));
    if (gpus > 4) {
      EXPECT_EQ(all[1].per_node, gpus);
      EXPECT_NEAR(all[1].busbw.back().gb_per_s, link.at("gb_per_s") * link.at("all_to_all_of_8"),
                  0.06);
    }
  }
  const FabricFigures f = machine_of({.gpu = "l40"}).fabric;
  EXPECT_NEAR(f.uplink_gb_per_s, links.at("pcie4").at("across") * f.link.gb_per_s, 0.06);
}

// NCCL has 32 channels for all peers, and more for a message from 16 MiB a channel on.
TEST(DatasheetMachine, ShortMessagesHaveFewChannels) {
  const auto messages = [](std::uint32_t gpus) {
    return link_among(machine_of({.gpu = "a100", .gpus = gpus}).fabric, gpus).messages;
  };
  const double channel = 13.9;
  constexpr double kMiB = 1 << 20;
  const auto expect = [](MessageRate is, double bytes, double gb_per_s) {
    EXPECT_EQ(is.bytes, bytes);
    EXPECT_NEAR(is.gb_per_s, gb_per_s, 1e-9);
  };
  expect(messages(8).at(0), 64 * kMiB, 4 * channel);
  expect(messages(8).at(1), 64 * kMiB + 1, 8 * channel);
  expect(messages(8).at(2), 128 * kMiB, 8 * channel);
  expect(messages(4).at(0), 128 * kMiB, 8 * channel);
  EXPECT_TRUE(link_among(machine_of({.gpu = "l20"}).fabric, 8).messages.empty());
}

// A message is as fast as its channels. Each channel holds an SM.
TEST(DatasheetMachine, AMessageHasTheChannelsThatItsRateTells) {
  for (const std::uint32_t ranks : {2u, 3u, 4u, 8u, 64u}) {
    const FabricFigures f = machine_of({.gpu = "a100"}).fabric;
    const std::vector<MessageRate> rates = link_among(f, ranks).messages;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const double shortest = i == 0 ? 1 : rates[i - 1].bytes + 1;
      for (const double bytes : {shortest, 0.5 * (shortest + rates[i].bytes), rates[i].bytes})
        EXPECT_NEAR(std::min(channels_of(f, ranks, bytes) * f.channel_gb_per_s, f.link.gb_per_s),
                    rates[i].gb_per_s, 1e-9)
            << ranks << " ranks, " << bytes;
    }
    EXPECT_LE(channels_of(f, ranks, 1e15), f.channels);
  }
}

// If all channels together are slower than the link, long messages are as fast as the channels.
TEST(DatasheetMachine, FewChannelsLimitEveryMessage) {
  FabricFigures f = machine_of({.gpu = "a100"}).fabric;
  f.channels = 1;
  for (const MessageRate& m : link_among(f, 8).messages)
    EXPECT_NEAR(m.gb_per_s, f.channel_gb_per_s, 1e-9) << m.bytes;
  EXPECT_GE(link_among(f, 8).messages.back().bytes, 1e15);
}

// Two tensors of one message have the channels that one of them would have alone, and share them:
// so twice as many bytes are as fast as one tensor.
TEST(DatasheetMachine, TensorsOfOneMessageShareChannels) {
  for (const std::uint32_t ranks : {2u, 4u, 8u}) {
    const FabricFigures f = machine_of({.gpu = "a100"}).fabric;
    const auto one = link_among(f, ranks, 1).messages, two = link_among(f, ranks, 2).messages;
    ASSERT_EQ(one.size(), two.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(two[i].gb_per_s, one[i].gb_per_s, 1e-9);
      EXPECT_NEAR(two[i].bytes, 2 * one[i].bytes, 1);
    }
  }
}

TEST(DatasheetMachine, GpusThatCannotCopyFromEachOtherShareTheirHost) {
  const Machine direct = machine_of({.gpu = "4090", .link = "pcie4"}),
                through_host = machine_of({.gpu = "4090"});
  EXPECT_EQ(direct.fabric.host_gb_per_s, 0) << "no limit";
  EXPECT_GT(through_host.fabric.host_gb_per_s, 0);
  EXPECT_LT(through_host.fabric.link.gb_per_s, direct.fabric.link.gb_per_s);
  EXPECT_GT(through_host.fabric.link.latency_us, direct.fabric.link.latency_us);
}

TEST(DatasheetMachine, IsRefusedInOneLineWhereItsPartsDoNotFit) {
  EXPECT_THAT(error_of({.gpu = "a10o"}), HasSubstr("unknown GPU 'a10o'; did you mean a100?"));
  EXPECT_THAT(error_of({.gpu = "a100", .link = "nvlink9"}), HasSubstr("unknown link 'nvlink9'"));
  EXPECT_THAT(error_of({.gpu = "l20", .link = "nvlink4"}), HasSubstr("L20 48GB has no NVLink"));
  EXPECT_THAT(error_of({.gpu = "a100", .link = "xgmi"}), HasSubstr("has no such links"));
  EXPECT_THAT(error_of({.gpu = "a100", .nodes = 2}), HasSubstr("needs --nic"));
  EXPECT_THAT(error_of({.gpu = "a100", .nic = "ib400"}), HasSubstr("needs --nodes"));
  EXPECT_THAT(error_of({.gpu = "a100", .gpus = 4, .nodes = 2, .nic = "ib400", .nics = 5}),
              HasSubstr("--nics is 5; use 1 to 4"));
  EXPECT_THAT(error_of({.gpu = "a100", .nodes = 2, .nic = "ib500"}), HasSubstr("did you mean ib"));
}

}  // namespace
}  // namespace ringsched
