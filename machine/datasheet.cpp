#include "ringsched/machine/datasheet.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

#include "keys.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "toml_section.hpp"

namespace ringsched {

namespace {

struct Gpu {
  std::string about, kernels, link, source;
  double tflops = 0, clock_ghz = 0, flops_per_clock = 0, exps_per_clock = 16;
  double memory_gb = 0, memory_gb_per_s = 0;
  std::uint32_t sms = 0, nvlinks = 0;
};

// How close attention kernels come to the peak, and how they are cut into blocks.
struct Kernels {
  KernelTable table;
  double forward = 0, backward = 0;        // heads of 128
  double forward_64 = 0, backward_64 = 0;  // 0: from those of 128
  double forward_256 = 0, backward_256 = 0;
};

struct Link {
  std::string about;
  FabricFigures fabric;
  double channel_gb_per_s = 0, host_share = 0;
  double across = 1;                 // of that between sockets
  double of_four = 0, of_eight = 0;  // what all-to-alls reach, as a share of the link
  double spread_of_four = 0, spread_of_eight = 0;
  std::string all_to_all_source;
  std::uint32_t sms = 0;
};

struct Nic {
  std::string about;
  NetworkFigures network;
};

void read_part(Section& s, Gpu& g) {
  for (const char* needed : {"about", "tflops", "sms", "clock_ghz", "flops_per_clock", "memory_gb",
                             "memory_gb_per_s", "kernels", "link"})
    s.required(needed);
  s.text("about", g.about);
  s.number("tflops", g.tflops, 1e-3, 1e6);
  s.count("sms", g.sms, 1, 1 << 20);
  s.number("clock_ghz", g.clock_ghz, 1e-3, 1e3);
  s.number("flops_per_clock", g.flops_per_clock, 1e-6, 1e9);
  s.number("exps_per_clock", g.exps_per_clock, 1e-6, 1e9);
  s.number("memory_gb", g.memory_gb, 1e-6, kMostGb);
  s.number("memory_gb_per_s", g.memory_gb_per_s, 1e-6, kMostGb);
  s.text("kernels", g.kernels);
  s.text("link", g.link);
  s.count("nvlinks", g.nvlinks, 0, 1000);
  s.text("source", g.source);
}

void read_part(Section& s, Kernels& k) {
  for (const char* needed : {"forward", "backward", "spread"}) s.required(needed);
  s.number("forward", k.forward, 1e-3, 1);
  s.number("backward", k.backward, 1e-3, 1);
  s.number("forward_64", k.forward_64, 1e-3, 1);
  s.number("backward_64", k.backward_64, 1e-3, 1);
  s.number("forward_256", k.forward_256, 1e-3, 1);
  s.number("backward_256", k.backward_256, 1e-3, 1);
  kernel_keys(s, k.table);
}

void read_part(Section& s, Link& l) {
  for (const char* needed : {"about", "kind", "gb_per_s", "latency_us", "spread"})
    s.required(needed);
  s.text("about", l.about);
  s.choice("kind", l.fabric.kind, kFabrics);
  link_keys(s, l.fabric.link);
  s.number("channel_gb_per_s", l.channel_gb_per_s, 1e-6, kMostGb);
  s.count("per_switch", l.fabric.per_switch, 1, kMaxWorkers);
  s.number("host_share", l.host_share, 1e-6, 1);
  s.number("across", l.across, 1e-6, 1);
  s.number("all_to_all_of_4", l.of_four, 1e-6, 1);
  s.number("all_to_all_of_8", l.of_eight, 1e-6, 1);
  s.number("spread_of_4", l.spread_of_four, 1e-6, kMostSpread);
  s.number("spread_of_8", l.spread_of_eight, 1e-6, kMostSpread);
  s.text("all_to_all_source", l.all_to_all_source);
  s.count("sms", l.sms, 0, 1000);
  s.number("spread", l.fabric.spread, 1e-6, kMostSpread);
  s.text("source", l.fabric.source);
}

void read_part(Section& s, Nic& n) {
  for (const char* needed : {"about", "gb_per_s", "latency_us", "spread"}) s.required(needed);
  s.text("about", n.about);
  link_keys(s, n.network.link);
  s.number("spread", n.network.spread, 1e-6, kMostSpread);
  s.text("source", n.network.source);
}

toml::table parts_in(std::string_view file) {
  for (const MachineProfile& p : datasheet_parts())
    if (p.name == file) return toml::parse(p.toml, p.name);
  fail("there is no {}", file);
}

template <class Of>
Of part(std::string_view file, std::string_view what, const std::string& name) {
  const toml::table all = parts_in(file);
  std::vector<std::string_view> names;
  for (const auto& [key, node] : all) names.push_back(key.str());
  if (!all.contains(name))
    throw Error(
        fmt::format("{}; for another {}, edit a copy of a profile: ringsched machines show NAME "
                    "> mine.toml",
                    unknown_name(what, name, names), what));
  Section s(*all.get(name)->as_table(), std::string(file), name);
  Of out;
  read_part(s, out);
  s.finish(true);
  return out;
}

std::vector<DatasheetPart> parts(std::string_view file) {
  std::vector<DatasheetPart> out;
  const toml::table all = parts_in(file);
  for (const auto& [key, node] : all)
    out.push_back({std::string(key.str()), node.as_table()->get_as<std::string>("about")->get()});
  return out;
}

FabricFigures fabric_of(const Link& link, const Gpu& gpu, std::uint32_t gpus) {
  FabricFigures f = link.fabric;
  if (f.kind == Fabric::Switch) f.link.gb_per_s *= gpu.nvlinks;
  f.channel_gb_per_s = link.channel_gb_per_s;
  if (f.kind == Fabric::Pcie) {
    f.per_switch = std::min(f.per_switch, gpus);
    f.uplink_gb_per_s = std::round(10 * link.across * f.link.gb_per_s) / 10;
    f.host_gb_per_s = link.host_share * gpus * f.link.gb_per_s;
  }
  return f;
}

// All-to-alls over PCIe, where flows hinder each other.
std::vector<CollectiveTable> collectives_of(const Link& link, std::uint32_t gpus) {
  std::vector<CollectiveTable> out;
  const auto add = [&](std::uint32_t members, double share, double spread) {
    if (!(share > 0) || gpus <= members / 2) return;
    const double rate = std::round(10 * share * link.fabric.link.gb_per_s) / 10;
    out.push_back({.kind = ExchangeForm::AllToAll,
                   .per_node = std::min(members, gpus),
                   .busbw = {{1 << 20, rate}, {std::pow(2, 32), rate}},
                   .spread = spread,
                   .source = fmt::format("{:g} of the link. {}", share, link.all_to_all_source)});
  };
  add(4, link.of_four, link.spread_of_four);
  add(8, link.of_eight, link.spread_of_eight);
  return out;
}

KernelTable kernel_of(const Kernels& kernels, const Gpu& gpu, bool backward, std::uint32_t head_dim,
                      double share) {
  KernelTable k = kernels.table;
  k.backward = backward;
  k.packs_groups = k.packs_groups && !backward;
  k.shape = TileShape::Full;
  k.dtypes = {Dtype::Bf16, Dtype::Fp16};
  k.head_dim = head_dim;
  k.tokens = {16384};
  k.tflops = {std::round(10 * share * gpu.tflops) / 10};
  k.heads = {128};
  k.blocks.overhead_keys = 160;
  if (backward && !k.overlaps_exp) k.blocks = {.rows = 128, .keys = 64, .overhead_keys = 64};
  k.source = fmt::format("{:g} of the peak of {:g} TFLOP/s. {}", share, gpu.tflops, k.source);
  return k;
}

}  // namespace

Machine machine_of(const DatasheetMachine& given) {
  DatasheetMachine d = given;  // with the names of the parts: "L20" is l20
  for (std::string* name : {&d.gpu, &d.link, &d.nic})
    std::ranges::transform(*name, name->begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const Gpu gpu = part<Gpu>("gpus", "GPU", d.gpu);
  const std::string link_name = d.link.empty() ? gpu.link : d.link;
  const Link link = part<Link>("links", "link", link_name);
  if (link.fabric.kind == Fabric::Switch && gpu.nvlinks == 0)
    fail("--link {}: {} has no NVLink; without --link, {} is used", link_name, gpu.about, gpu.link);
  if (link.fabric.kind == Fabric::Mesh && link_name != gpu.link)
    fail("--link {}: {} has no such links; without --link, {} is used", link_name, gpu.about,
         gpu.link);
  if (d.nodes > 1 && d.nic.empty()) fail("--nodes {} needs --nic, the link between nodes", d.nodes);
  if (d.nodes == 1 && !d.nic.empty()) fail("--nic {} needs --nodes of at least 2", d.nic);
  if (d.nics > d.gpus)
    fail("--nics is {}; use 1 to {} (a node has {} GPUs)", d.nics, d.gpus, d.gpus);
  const auto kernels = part<Kernels>("kernels", "kernels", gpu.kernels);

  Machine m;
  const std::string each = fmt::format("{}x{}-{}", d.gpu, d.gpus, link_name);
  m.name = d.nodes == 1 ? each : fmt::format("{}x{}-{}", d.nodes, each, d.nic);
  m.summary = fmt::format("{}{} x {}, {}", d.nodes == 1 ? "" : fmt::format("{} x ", d.nodes),
                          d.gpus, gpu.about, link.about);
  m.library = kernels.table.library;
  m.nodes = d.nodes;
  m.devices_per_node = d.gpus;
  m.sms = gpu.sms;
  m.clock_ghz = gpu.clock_ghz;
  m.flops_per_clock = gpu.flops_per_clock;
  m.exps_per_clock = gpu.exps_per_clock;
  m.devices_source = gpu.source;
  m.memory_gb = gpu.memory_gb;
  m.memory_gb_per_s = std::round(0.87 * gpu.memory_gb_per_s);
  m.memory_source = fmt::format(
      "{:g} GB/s by the datasheet ({}); 0.87 of it, as an A100 reaches 1770 of 2039 and an H200 "
      "4110 of 4800 (RRZE-HPC/gpu-benches 1038c5d, yencal/gpu-bandwidth-benchmark fc38883)",
      gpu.memory_gb_per_s, gpu.source);
  m.launch_us = 2.5;
  m.launch_source = "RRZE-HPC/gpu-benches: 2.56 us on an A100, 2.43 on an H200";
  m.comm_sms = link.sms;
  m.comm_waits_for_kernel = true;
  m.comm_source =
      "NCCL takes one SM for each channel (src/enqueue.cc, src/graph/paths.cc, 5067397); kernels "
      "queued behind a full grid wait for it (NVIDIA/nccl issue 1428)";
  m.fabric = fabric_of(link, gpu, d.gpus);
  m.collectives = collectives_of(link, d.gpus);
  if (d.nodes > 1) {
    const Nic nic = part<Nic>("nics", "NIC", d.nic);
    m.summary += fmt::format("; {} x {}", d.nics > 0 ? d.nics : d.gpus, nic.about);
    m.network = nic.network;
    m.network.nics = d.nics > 0 ? d.nics : d.gpus;
  }
  m.software.spread = 0.25;
  m.software.source = "one fused pass: fp32 result and partial read, result written";
  for (const auto& [head_dim, forward, backward] :
       {std::tuple{128u, kernels.forward, kernels.backward},
        {64u, kernels.forward_64, kernels.backward_64},
        {256u, kernels.forward_256, kernels.backward_256}}) {
    if (forward > 0) m.kernels.push_back(kernel_of(kernels, gpu, false, head_dim, forward));
    if (backward > 0) m.kernels.push_back(kernel_of(kernels, gpu, true, head_dim, backward));
  }
  require_valid(m);
  return m;
}

std::vector<DatasheetPart> known_gpus() { return parts("gpus"); }
std::vector<DatasheetPart> known_links() { return parts("links"); }
std::vector<DatasheetPart> known_nics() { return parts("nics"); }

}  // namespace ringsched
