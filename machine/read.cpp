// Machine profiles: TOML in, a Machine out, and a complaint with key and line for whatever is not
// as docs/machines.md says.
#include <algorithm>
#include <map>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "toml_section.hpp"

namespace ringsched {

namespace {

const std::map<std::string, Fabric> kFabrics = {{"switch", Fabric::Switch},
                                                {"mesh", Fabric::Mesh},
                                                {"pcie", Fabric::Pcie},
                                                {"memory", Fabric::Memory}};
const std::map<std::string, Dtype> kDtypes = {
    {"fp32", Dtype::Fp32}, {"bf16", Dtype::Bf16}, {"fp16", Dtype::Fp16}};
const std::map<std::string, bool> kPasses = {{"forward", false}, {"backward", true}};
const std::map<std::string, TileShape> kShapes = {{"full", TileShape::Full},
                                                  {"causal", TileShape::Causal}};

constexpr double kMostGb = 1e6, kMostUs = 1e9;
constexpr std::uint64_t kMostMeshLinks = 1 << 24;  // each is kept track of, used or not

void read_link(Section& s, LinkFigures& link) {
  s.number("gb_per_s", link.gb_per_s, 1e-6, kMostGb);
  s.number("latency_us", link.latency_us, 0, kMostUs);
  s.rates("messages", link.messages);
}

void read_software(Section& s, SoftwareFigures& w) {
  s.number("merge_bytes", w.merge_bytes, 0, 1e6);
  s.number("reduce_bytes", w.reduce_bytes, 0, 1e6);
  s.number("prepare_bytes", w.prepare_bytes, 0, 1e6);
  s.number("output_bytes", w.output_bytes, 0, 1e6);
  s.number("slice_bytes", w.slice_bytes, 0, 1e6);
  s.count("merge_launches", w.merge_launches, 0, 1000);
  s.number("step_us", w.step_us, 0, kMostUs);
  s.text("source", w.source);
}

KernelTable read_kernel(Section& s) {
  KernelTable k;
  s.text("library", k.library);
  s.choice("pass", k.backward, kPasses);
  s.choice("mask", k.shape, kShapes);
  s.choices("dtypes", k.dtypes, kDtypes);
  s.count("head_dim", k.head_dim, 1, kMaxHeadDim);
  s.numbers("tokens", k.tokens, 1, 1e9);
  s.numbers("tflops", k.tflops, 1e-9, 1e6);
  s.numbers("heads", k.heads, 1, 1e6);
  s.text("source", k.source);
  for (const char* needed : {"pass", "mask", "dtypes", "head_dim", "tokens", "tflops"})
    s.required(needed);
  if (k.tflops.size() != k.tokens.size())
    s.wrong(*s.table().get("tflops"), "kernel.tflops must have one number for each of tokens");
  if (k.heads.size() == 1) k.heads.resize(k.tokens.size(), k.heads[0]);
  if (!k.heads.empty() && k.heads.size() != k.tokens.size())
    s.wrong(*s.table().get("heads"),
            "kernel.heads must have one number, or one for each of tokens");
  for (std::size_t i = 1; i < k.tokens.size(); ++i)
    if (k.tokens[i] <= k.tokens[i - 1])
      s.wrong(*s.table().get("tokens"), "kernel.tokens must rise");
  return k;
}

void read_machine(Section& s, Machine& m) {
  s.text("name", m.name);
  s.text("summary", m.summary);
  s.text("library", m.library);
  s.choice("model", m.ideal, {{"ideal", true}});
  s.section("devices", [&](Section& d) {
    d.count("nodes", m.nodes, 1, kMaxWorkers);
    d.count("per_node", m.devices_per_node, 1, kMaxWorkers);
    d.count("workers_each", m.workers_per_device, 1, kMaxWorkers);
    d.count("concurrency", m.concurrency, 1, 1 << 20);
    d.flag("turns", m.turns);
    d.number("slowdown", m.full_slowdown, 1, 1000);
    d.count("sms", m.sms, 0, 1 << 20);
    d.count("block_rows", m.block_rows, 1, 1 << 20);
    d.text("source", m.devices_source);
  });
  s.section("memory", [&](Section& d) {
    d.number("gb_per_s", m.memory_gb_per_s, 1e-6, kMostGb);
    d.text("source", m.memory_source);
  });
  s.section("launch", [&](Section& d) {
    d.number("us", m.launch_us, 0, kMostUs);
    d.text("source", m.launch_source);
  });
  s.section("communication", [&](Section& d) {
    d.count("sms", m.comm_sms, 0, 1 << 20);
    d.count("cores", m.comm_cores, 0, 1 << 10);
    d.number("slowdown", m.comm_slowdown, 1, 1000);
    d.flag("waits_for_kernel", m.comm_waits_for_kernel);
    d.text("source", m.comm_source);
  });
  s.section("noise", [&](Section& d) {
    d.number("share", m.noise, 0, kMostNoise);
    d.text("source", m.noise_source);
  });
  s.section("fabric", [&](Section& d) {
    d.choice("kind", m.fabric.kind, kFabrics);
    read_link(d, m.fabric.link);
    d.number("core_gb_per_s", m.fabric.core_gb_per_s, 0, kMostGb);
    d.count("per_switch", m.fabric.per_switch, 1, kMaxWorkers);
    d.number("uplink_gb_per_s", m.fabric.uplink_gb_per_s, 1e-6, kMostGb);
    d.number("host_gb_per_s", m.fabric.host_gb_per_s, 0, kMostGb);
    d.text("source", m.fabric.source);
  });
  s.section("network", [&](Section& d) {
    d.count("nics", m.network.nics, 1, kMaxWorkers);
    read_link(d, m.network.link);
    d.number("oversubscription", m.network.oversubscription, 1, 1e6);
    d.text("source", m.network.source);
  });
  if (s.has("kernel")) m.kernels.clear();
  s.sections("kernel", [&](Section& k) { m.kernels.push_back(read_kernel(k)); });
  s.section("software", [&](Section& d) { read_software(d, m.software); });
}

// Where the table (or key) is that a complaint of check() begins with; the first line if nowhere.
std::uint32_t line_of(const toml::table& file, std::string_view complaint) {
  const toml::node* const at = file.get(complaint.substr(0, complaint.find_first_of(".: ")));
  return at == nullptr ? 1 : at->source().begin.line;
}

Machine read(std::string_view text, std::string_view name, int depth) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    fail("{}:{}: {}", name, e.source().begin.line, printable(e.description(), 200));
  }
  Section s(table, std::string(name), "");
  std::string base;
  s.text("base", base);
  Machine m;
  if (!base.empty()) {
    const auto profiles = machine_profiles();
    const auto found = std::find_if(profiles.begin(), profiles.end(),
                                    [&](const MachineProfile& p) { return p.name == base; });
    std::vector<std::string_view> names;
    for (const MachineProfile& p : profiles) names.push_back(p.name);
    if (found == profiles.end() || depth == 0)
      s.wrong(*table.get("base"), "base: " + unknown_name("machine", base, names));
    m = read(found->toml, found->name, depth - 1);
  }
  read_machine(s, m);
  s.finish(false);
  s.required("name");
  s.required("summary");
  try {
    check(m);
  } catch (const Error& e) {
    fail("{}:{}: {}", name, line_of(table, e.what()), e.what());
  }
  return m;
}

}  // namespace

std::vector<std::string_view> kernel_libraries(const Machine& m) {
  std::vector<std::string_view> names;
  for (const KernelTable& k : m.kernels)
    if (std::find(names.begin(), names.end(), k.library) == names.end()) names.push_back(k.library);
  return names;
}

void check(const Machine& m) {
  if (m.ideal) return;
  // Each complaint begins with the key it is about.
  const auto needs = [](bool there, const char* what) {
    if (!there) fail("{}", what);
  };
  const auto at_most = [](const char* what, std::uint64_t given, std::uint64_t most) {
    if (given > most) fail("{}: {} are too many; at most {}", what, given, most);
  };
  needs(!m.kernels.empty(), "kernel is missing: a machine needs at least one [[kernel]] table");
  if (std::none_of(m.kernels.begin(), m.kernels.end(),
                   [&](const KernelTable& k) { return k.library == m.library; }))
    fail("library: {}", unknown_name("kernel library", m.library, kernel_libraries(m)));
  needs(m.memory_gb_per_s > 0, "memory.gb_per_s is missing");
  if (m.full_slowdown > 1 && m.concurrency < 2)
    fail("devices.slowdown is of kernels side by side; devices.concurrency is {}", m.concurrency);
  const std::uint64_t devices = std::uint64_t{m.nodes} * m.devices_per_node;
  at_most("devices.nodes times devices.per_node", devices, kMaxWorkers);
  if (m.comm_cores > m.concurrency)
    fail("communication.cores: {} are too many; devices.concurrency is {}", m.comm_cores,
         m.concurrency);
  needs(m.comm_sms == 0 || m.comm_sms < m.sms, "communication.sms must be fewer than devices.sms");
  if (m.devices_per_node > 1 || m.fabric.kind == Fabric::Memory) {
    needs(m.fabric.kind != Fabric::Free,
          "fabric.kind is missing: what joins the devices of a node");
    needs(m.fabric.link.gb_per_s > 0, "fabric.gb_per_s is missing");
  }
  if (m.fabric.kind == Fabric::Mesh)
    at_most("fabric.kind: links of a mesh", devices * m.devices_per_node, kMostMeshLinks);
  if (m.fabric.kind == Fabric::Pcie) {
    needs(m.fabric.per_switch > 0, "fabric.per_switch is missing");
    needs(m.fabric.uplink_gb_per_s > 0, "fabric.uplink_gb_per_s is missing");
  }
  if (m.nodes > 1) {
    needs(m.network.nics > 0, "network.nics is missing: how many each node has");
    at_most("network.nics times devices.nodes", std::uint64_t{m.network.nics} * m.nodes,
            kMaxWorkers);
    needs(m.network.link.gb_per_s > 0, "network.gb_per_s is missing");
  }
  const auto check_messages = [](const char* where, const LinkFigures& link) {
    for (const MessageRate& r : link.messages)
      if (r.gb_per_s > link.gb_per_s)
        fail("{}.messages: {:g} bytes cannot achieve {:g} GB/s over a link of {:g}", where, r.bytes,
             r.gb_per_s, link.gb_per_s);
  };
  check_messages("fabric", m.fabric.link);
  check_messages("network", m.network.link);
}

Machine read_machine(std::string_view text, std::string_view name) { return read(text, name, 8); }

bool is_machine_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".toml");
}

Machine find_machine(const std::string& name) {
  if (is_machine_file(name)) {
    constexpr std::uint64_t most = (1 << 20) - 1;
    return read_machine(read_whole(name, most), name);
  }
  std::vector<std::string_view> names;
  for (const MachineProfile& p : machine_profiles()) {
    if (p.name == name) return read_machine(p.toml, p.name);
    names.push_back(p.name);
  }
  throw Error(unknown_name("machine", name, names));
}

SoftwareFigures find_software(const std::string& name) {
  std::vector<std::string_view> names;
  for (const MachineProfile& p : software_profiles()) {
    names.push_back(p.name);
    if (p.name != name) continue;
    const toml::table table = toml::parse(p.toml, p.name);
    Section s(table, std::string(p.name), "");
    std::string about;
    SoftwareFigures figures;
    s.text("name", about);
    s.text("summary", about);
    s.section("software", [&](Section& d) { read_software(d, figures); });
    s.finish(false);
    return figures;
  }
  throw Error(unknown_name("software", name, names));
}

}  // namespace ringsched
