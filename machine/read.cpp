// Machine profiles: TOML in, a Machine out, and a complaint with key and line for whatever is not
// as docs/machines.md says.
#include <algorithm>

#include "keys.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "toml_section.hpp"

namespace ringsched {

namespace {

constexpr std::uint64_t kMostMeshLinks = 1 << 24;  // each is kept track of, used or not

KernelTable read_kernel(Section& s) {
  KernelTable k;
  kernel_keys(s, k);
  for (const char* needed : {"pass", "mask", "dtypes", "head_dim", "tokens", "tflops"})
    s.required(needed);
  if (k.tflops.size() != k.tokens.size())
    s.wrong(*s.table().get("tflops"), "kernel.tflops must have one number per entry of tokens");
  if (k.heads.size() == 1) k.heads.resize(k.tokens.size(), k.heads[0]);
  if (!k.heads.empty() && k.heads.size() != k.tokens.size())
    s.wrong(*s.table().get("heads"),
            "kernel.heads must have one number, or one per entry of tokens");
  for (std::size_t i = 1; i < k.tokens.size(); ++i)
    if (k.tokens[i] <= k.tokens[i - 1])
      s.wrong(*s.table().get("tokens"), "kernel.tokens must be in increasing order");
  return k;
}

bool are_for_the_same(const CollectiveTable& a, const CollectiveTable& b) {
  return a.kind == b.kind && a.per_node == b.per_node && a.nodes == b.nodes && a.groups == b.groups;
}

CollectiveTable read_collective(Section& s) {
  CollectiveTable c;
  collective_keys(s, c);
  for (const char* needed : {"kind", "per_node", "busbw"}) s.required(needed);
  if (std::uint64_t{c.per_node} * c.nodes < 2)
    s.wrong(s.table(), "collective.per_node times collective.nodes is 1; use at least 2");
  return c;
}

// What a base has measured over links that this profile changes, is not true of it.
void drop_collectives(const toml::table& file, Machine& m) {
  const bool fabric = file.contains("fabric"), network = file.contains("network");
  std::erase_if(m.collectives,
                [&](const CollectiveTable& c) { return fabric || (network && c.nodes > 1); });
}

void read_collectives(Section& s, Machine& m) {
  const auto inherited = static_cast<std::ptrdiff_t>(m.collectives.size());
  std::vector<CollectiveTable> own;
  s.sections("collective", [&](Section& t) {
    const CollectiveTable c = read_collective(t);
    if (std::any_of(own.begin(), own.end(),
                    [&](const CollectiveTable& o) { return are_for_the_same(o, c); }))
      t.wrong(t.table(),
              fmt::format("collective: a second table for {} with per_node {}, nodes {}, groups {}",
                          to_text(c.kind), c.per_node, c.nodes, c.groups));
    own.push_back(c);
  });
  for (const CollectiveTable& c : own) {
    const auto end = m.collectives.begin() + inherited;
    const auto same = std::find_if(m.collectives.begin(), end, [&](const CollectiveTable& o) {
      return are_for_the_same(o, c);
    });
    if (same != end)
      *same = c;
    else
      m.collectives.push_back(c);
  }
}

void read_machine(Section& s, Machine& m) {
  machine_keys(s, m);
  if (s.has("kernel")) m.kernels.clear();
  s.sections("kernel", [&](Section& k) { m.kernels.push_back(read_kernel(k)); });
  drop_collectives(s.table(), m);
  read_collectives(s, m);
}

// Where the table (or key) is that a complaint of require_valid() begins with; the first line if
// nowhere.
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
    require_valid(m);
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

void require_valid(const Machine& m) {
  if (m.ideal) return;
  // Each complaint begins with the key it is about.
  const auto needs = [](bool there, const char* what) {
    if (!there) fail("{}", what);
  };
  const auto at_most = [](const char* what, std::uint64_t given, std::uint64_t most) {
    if (given > most) fail("{} is {}; use at most {}", what, given, most);
  };
  needs(!m.kernels.empty(), "kernel is missing: a machine needs at least one [[kernel]] table");
  if (std::none_of(m.kernels.begin(), m.kernels.end(),
                   [&](const KernelTable& k) { return k.library == m.library; }))
    fail("library: {}", unknown_name("kernel library", m.library, kernel_libraries(m)));
  needs(m.memory_gb_per_s > 0, "memory.gb_per_s is missing");
  if (m.full_slowdown > 1 && m.concurrency < 2)
    fail("devices.slowdown needs devices.concurrency of at least 2; it is {}", m.concurrency);
  const std::uint64_t devices = std::uint64_t{m.nodes} * m.devices_per_node;
  at_most("devices.nodes times devices.per_node", devices, kMaxWorkers);
  if (m.comm_cores > m.concurrency)
    fail("communication.cores is {}, more than devices.concurrency ({})", m.comm_cores,
         m.concurrency);
  needs(m.comm_sms == 0 || m.comm_sms < m.sms, "communication.sms must be fewer than devices.sms");
  if (m.devices_per_node > 1 || m.fabric.kind == Fabric::Memory) {
    needs(m.fabric.kind != Fabric::Free,
          "fabric.kind is missing: what joins the devices of a node");
    needs(m.fabric.link.gb_per_s > 0, "fabric.gb_per_s is missing");
  }
  if (m.fabric.kind == Fabric::Mesh)
    at_most("fabric.kind: the number of links of a mesh", devices * m.devices_per_node,
            kMostMeshLinks);
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
        fail("{}.messages: {:g} bytes at {:g} GB/s is faster than the link ({:g} GB/s)", where,
             r.bytes, r.gb_per_s, link.gb_per_s);
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
    s.section("software", [&](Section& d) { software_keys(d, figures); });
    s.section("host", [&](Section& d) { host_keys(d, figures.host); });
    s.finish(false);
    return figures;
  }
  throw Error(unknown_name("software", name, names));
}

}  // namespace ringsched
