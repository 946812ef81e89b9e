#include "valid.hpp"

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

namespace {

constexpr std::uint64_t kMostMeshLinks = 1 << 24;  // each is kept track of, used or not

}  // namespace

double peak_tflops(const Machine& m) { return m.sms * m.clock_ghz * m.flops_per_clock / 1000; }

bool is_above_peak(const Machine& m, const KernelTable& t) {
  constexpr double kClocks = 1.15;
  const double peak = peak_tflops(m);
  return peak > 0 && !t.tflops.empty() && *std::ranges::max_element(t.tflops) > kClocks * peak;
}

std::vector<std::string> invalid(const HostFigures& h) {
  std::vector<std::string> out;
  if (h.graph_us > 0 && h.synchronises != Synchronises::Never)
    out.emplace_back("host.graph_us: in a CUDA graph, no host synchronises with the device");
  if (h.graph_node_us > 0 && h.graph_us <= 0)
    out.emplace_back("host.graph_node_us needs host.graph_us");
  if (h.synchronise_us > 0 && h.synchronises == Synchronises::Never)
    out.emplace_back("host.synchronise_us needs host.synchronises, exchanges, kernels or steps");
  return out;
}

std::vector<std::string> invalid(const Machine& m) {
  std::vector<std::string> out;
  if (m.ideal) return out;
  out = invalid(m.software.host);
  const auto needs = [&](bool there, const char* what) {
    if (!there) out.emplace_back(what);
  };
  const auto at_most = [&](const char* what, std::uint64_t given, std::uint64_t most) {
    if (given > most) out.push_back(fmt::format("{} is {}; use at most {}", what, given, most));
  };
  needs(!m.kernels.empty(), "kernel is missing: a machine needs at least one [[kernel]] table");
  if (!m.kernels.empty() &&
      std::none_of(m.kernels.begin(), m.kernels.end(),
                   [&](const KernelTable& k) { return k.library == m.library; }))
    out.push_back(
        fmt::format("library: {}", unknown_name("kernel library", m.library, kernel_libraries(m))));
  needs(m.memory_gb_per_s > 0, "memory.gb_per_s is missing");
  if (m.full_slowdown > 1 && m.concurrency < 2)
    out.push_back(fmt::format("devices.slowdown needs devices.concurrency of at least 2; it is {}",
                              m.concurrency));
  const std::uint64_t devices = std::uint64_t{m.nodes} * m.devices_per_node;
  at_most("devices.nodes times devices.per_node", devices, kMaxWorkers);
  if (m.comm_cores > m.concurrency)
    out.push_back(fmt::format("communication.cores is {}, more than devices.concurrency ({})",
                              m.comm_cores, m.concurrency));
  needs(m.comm_sms == 0 || m.comm_sms < m.sms, "communication.sms must be fewer than devices.sms");
  if (m.devices_per_node > 1 || m.fabric.kind == Fabric::Memory) {
    needs(m.fabric.kind != Fabric::Free,
          "fabric.kind is missing; use memory, mesh, pcie or switch");
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
    needs(m.network.nics > 0, "network.nics is missing; give the number of NICs of each node");
    at_most("network.nics times devices.nodes", std::uint64_t{m.network.nics} * m.nodes,
            kMaxWorkers);
    needs(m.network.link.gb_per_s > 0, "network.gb_per_s is missing");
  }
  const auto check_messages = [&](const char* where, const LinkFigures& link) {
    if (!link.messages.empty() && link.gb_per_s <= 0)
      out.push_back(fmt::format("{}.gb_per_s is missing beside {}.messages", where, where));
    for (const MessageRate& r : link.messages)
      if (r.gb_per_s > link.gb_per_s && link.gb_per_s > 0) {
        out.push_back(
            fmt::format("{}.messages: {:g} bytes at {:g} GB/s is faster than the link ({:g} GB/s)",
                        where, r.bytes, r.gb_per_s, link.gb_per_s));
        break;
      }
  };
  needs(m.fabric.channel_gb_per_s == 0 || m.fabric.link.messages.empty(),
        "fabric.channel_gb_per_s and fabric.messages: give one of them");
  check_messages("fabric", m.fabric.link);
  check_messages("network", m.network.link);
  return out;
}

std::vector<std::string_view> kernel_libraries(const Machine& m) {
  std::vector<std::string_view> names;
  for (const KernelTable& k : m.kernels)
    if (std::find(names.begin(), names.end(), k.library) == names.end()) names.push_back(k.library);
  return names;
}

void require_valid(const Machine& m) {
  if (const auto all = invalid(m); !all.empty()) throw Error(all.front());
}

}  // namespace ringsched
