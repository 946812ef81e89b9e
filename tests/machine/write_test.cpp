// Written profiles: any machine reads back as the same machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;
using testing::Not;

// Machines of every kind, with every field set now and then, most of which make sense.
class AnyMachine {
 public:
  explicit AnyMachine(std::uint32_t seed) : random_(seed) {}

  Machine make() {
    Machine m;
    m.name = text();
    m.summary = text();
    if (chance()) m.made_by = text();
    m.nodes = count(1, 6);
    m.devices_per_node = count(1, 9);
    m.workers_per_device = count(1, 1024);
    m.concurrency = count(2, 64);
    m.turns = chance();
    m.full_slowdown = number(1, 1000);
    m.sms = count(100, 200);
    m.block_rows = count(1, 512);
    if (chance()) m.clock_ghz = number(1e-3, 1e3);
    if (chance()) m.flops_per_clock = number(1e-6, 1e9);
    m.exps_per_clock = number(1e-6, 1e9);
    m.devices_source = text();
    m.memory_gb = number(1e-6, 1e6);
    m.memory_gb_per_s = number(1e-6, 1e6);
    m.memory_source = text();
    m.launch_us = number(1e-3, 1e9);
    m.launch_source = text();
    if (chance()) {
      m.comm_sms = count(0, 99);
      m.comm_cores = count(0, 2);
      m.comm_slowdown = number(1, 1000);
      m.comm_waits_for_kernel = chance();
      m.comm_source = text();
    }
    if (chance()) {
      m.noise = number(1e-9, kMostNoise);
      m.noise_source = text();
    }
    m.fabric = fabric();
    m.network = network();
    const std::uint32_t kernels = count(1, 4);
    for (std::uint32_t i = 0; i < kernels; ++i) m.kernels.push_back(kernel(i));
    m.library = m.kernels.front().library;
    for (std::uint32_t i = count(0, 3); i > 0; --i) m.collectives.push_back(collective(i));
    m.software = software();
    if (chance()) m.software.host = host();
    return m;
  }

 private:
  bool chance() { return count(0, 1) == 1; }
  std::uint32_t count(std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random_);
  }
  // Of any magnitude, and with all its digits; sometimes a whole number, or a bound.
  double number(double least, double most) {
    const std::uint32_t kind = count(0, 9);
    if (kind == 0) return least;
    if (kind == 1) return most;
    const double x =
        std::exp(std::uniform_real_distribution<>(std::log(least), std::log(most))(random_));
    return std::clamp(kind < 4 ? std::round(x) : x, least, most);
  }
  std::string text() {
    const std::vector<std::string> parts = {"a",      " ",  "\"", "\\", "#",  "'''",
                                            "\\n",    "é",  "]",  "=",  "µs", "\\",
                                            "\"\"\"", "汉", ",",  "x",  "[",  "\\u0041"};
    std::string out = "t";
    const std::uint32_t length = count(0, 12);
    for (std::uint32_t i = 0; i < length; ++i)
      out += parts[count(0, static_cast<std::uint32_t>(parts.size()) - 1)];
    return out;
  }
  HostFigures host() {
    HostFigures h;
    for (double* us :
         {&h.call_us, &h.call_backward_us, &h.attend_us, &h.attend_backward_us, &h.merge_us,
          &h.slice_us, &h.pass_us, &h.post_us, &h.exchange_us, &h.step_us})
      if (chance()) *us = number(1e-3, 1e6);
    if (chance()) {
      h.synchronises = chance()   ? Synchronises::Exchanges
                       : chance() ? Synchronises::Steps
                                  : Synchronises::Kernels;
      h.synchronise_us = number(1e-3, 1e6);
    } else if (chance()) {
      h.graph_us = number(1e-3, 1e6);
      h.graph_node_us = number(1e-3, 1e6);
    }
    h.source = text();
    return h;
  }
  LinkFigures link() {
    LinkFigures l;
    l.gb_per_s = number(1e-6, 1e6);
    if (chance()) l.latency_us = number(1e-3, 1e9);
    double bytes = number(1, 100), rate = std::max(l.gb_per_s * 1e-4, 1e-9);
    for (std::uint32_t i = count(0, 5); i > 0; --i) {
      l.messages.push_back({bytes, rate});
      bytes *= number(2, 10);
      rate *= number(1, 2);
    }
    return l;
  }
  FabricFigures fabric() {
    FabricFigures f;
    f.kind = static_cast<Fabric>(count(1, 4));
    f.link = link();
    f.core_gb_per_s = number(1e-3, 1e6);
    f.per_switch = count(1, 8);
    f.uplink_gb_per_s = number(1e-6, 1e6);
    if (chance()) f.host_gb_per_s = number(1e-6, 1e6);
    f.source = text();
    return f;
  }
  NetworkFigures network() {
    NetworkFigures n;
    n.nics = count(1, 8);
    n.link = link();
    n.oversubscription = number(1, 1e6);
    n.source = text();
    return n;
  }
  KernelTable kernel(std::uint32_t which) {
    KernelTable k;
    if (chance()) k.library = text();
    k.backward = chance();
    k.shape = chance() ? TileShape::Full : TileShape::Causal;
    for (std::uint32_t i = count(1, 4); i > 0; --i)
      k.dtypes.push_back(static_cast<Dtype>(count(0, 2)));
    k.head_dim = which + 1 + 4 * count(0, kMaxHeadDim / 4 - 1);  // no two are for the same
    const double own = k.head_dim;
    if (chance()) k.pads_head_dim_to = {own, std::min(own + count(1, 100), 1.0 * kMaxHeadDim)};
    if (own == kMaxHeadDim) k.pads_head_dim_to = {};
    double tokens = number(1, 100);
    const std::uint32_t points = count(1, 6);
    const bool heads = chance();
    for (std::uint32_t i = 0; i < points; ++i) {
      k.tokens.push_back(tokens);
      k.tflops.push_back(number(1e-9, 1e6));
      if (heads) k.heads.push_back(number(1, 1e6));
      tokens *= number(1.5, 4);
    }
    if (chance())
      k.blocks = {count(1, 512),  count(1, 512), number(1e-6, 1e6), count(1, 2),
                  number(0.5, 1), chance(),      chance()};
    k.overlaps_exp = chance();
    k.adds_groups = chance();
    if (chance()) k.heads_per_key_head = count(2, 64);
    k.packs_groups = chance();
    if (k.blocks.overhead_keys > 0 && k.blocks.per_sm == 1 && !k.blocks.longest_first)
      k.deals_blocks = chance() ? DealsBlocks::Always : DealsBlocks::Unpacked;
    if (chance()) k.packed_factor = number(0.01, 100);
    if (chance()) k.documents_spread = number(1e-6, 2);
    k.source = text();
    return k;
  }
  CollectiveTable collective(std::uint32_t groups) {
    CollectiveTable c;
    c.kind = static_cast<ExchangeForm>(count(0, 3));
    c.per_node = count(2, 8);
    c.nodes = count(1, 4);
    c.groups = groups;  // no two are for the same
    double bytes = number(1, 100), rate = number(1e-6, 1e4);
    for (std::uint32_t i = count(1, 5); i > 0; --i) {
      c.busbw.push_back({bytes, rate});
      bytes *= number(2, 10);
      rate *= number(1, 2);
    }
    if (chance()) c.spread = number(1e-6, 1);
    c.source = text();
    return c;
  }
  SoftwareFigures software() {
    SoftwareFigures s;
    if (chance()) return s;
    s.merge_bytes = number(1e-3, 1e6);
    s.reduce_bytes = chance() ? 0 : number(1e-3, 1e6);
    s.prepare_bytes = number(1e-3, 1e6);
    s.output_bytes = number(1e-3, 1e6);
    s.slice_bytes = number(1e-3, 1e6);
    s.merge_launches = count(0, 1000);
    if (chance()) s.merge_per_clock = number(1e-6, 1e6);
    if (chance()) s.attend_per_clock = number(1e-6, 1e6);
    if (chance()) s.attend_factor = number(0.01, 100);
    s.packed = chance();
    if (chance()) s.backward_fills = count(1, 1000);
    s.packs_all = chance();
    if (chance()) s.pack_per_clock = number(1e-6, 1e6);
    s.posts_first = chance();
    s.one_stream = chance();
    s.tensors_apart = chance();
    s.message_tensors = chance() ? 1 : 3;
    s.free_transfers = chance();
    s.sends_all = chance();
    s.source = text();
    return s;
  }

  std::mt19937 random_;
};

TEST(WrittenMachine, ReadsAsTheSameForEveryProfileThatComesAlong) {
  for (const MachineProfile& p : machine_profiles()) {
    Machine m = find_machine(std::string(p.name));
    m.bases.clear();  // what is written needs none
    EXPECT_EQ(read_machine(to_toml(m), "written.toml"), m) << to_toml(m);
  }
}

TEST(WrittenMachine, ReadsAsTheSameForMachinesOfAnyKind) {
  constexpr std::uint32_t tries = kSanitized ? 200 : 2000;
  std::uint32_t make_sense = 0;
  for (std::uint32_t seed = 0; seed < tries; ++seed) {
    const Machine m = AnyMachine(seed).make();
    try {
      require_valid(m);
    } catch (const Error&) {
      continue;
    }
    ++make_sense;
    const std::string text = to_toml(m, {"a comment", "= [ \" another"});
    EXPECT_EQ(read_machine(text, "written.toml"), m) << text;
  }
  EXPECT_GT(make_sense, tries / 2);
}

// Looked for in the text, by other means than the reader's.
TEST(WrittenMachine, SaysWhereEachGroupOfFiguresIsFrom) {
  Machine m = AnyMachine(1).make();
  m.devices_source = "from a";
  m.memory_source = "from b";
  m.launch_source = "from c";
  m.comm_source = "from d";
  m.noise_source = "from e";
  m.fabric.source = "from f";
  m.network.source = "from g";
  m.software.source = "from h";
  m.kernels.resize(1);
  m.library = m.kernels[0].library;
  m.kernels[0].source = "from i";
  const std::string text = to_toml(m);
  for (char c = 'a'; c <= 'i'; ++c)
    EXPECT_THAT(text, HasSubstr(std::string("\nsource = \"from ") + c + "\"\n"));
}

TEST(WrittenMachine, LeavesOutWhatIsAsUsual) {
  Machine m = find_machine("laptop");
  const std::string text = to_toml(m, {"by hand"});
  EXPECT_THAT(text, testing::StartsWith("# by hand\nname = \"laptop\"\n"));
  for (const char* unused : {"nodes", "sms", "turns", "[network]", "[noise]", "made_by", "library",
                             "core_gb_per_s", "slice_bytes"})
    EXPECT_THAT(text, Not(HasSubstr(unused))) << unused;
}

TEST(WrittenMachine, IsRefusedWhereNoProfileDescribesIt) {
  const Machine good = find_machine("laptop");
  Machine no_source = good, two_lines = good, no_kernel = good, free_fabric = good;
  no_source.memory_source.clear();
  two_lines.summary = "a\nb = 3";
  no_kernel.kernels.clear();
  free_fabric.fabric.link.latency_us = -1;
  for (const Machine& m : {no_source, two_lines, no_kernel, free_fabric})
    EXPECT_THROW(to_toml(m), Error);
}

}  // namespace
}  // namespace ringsched
