#include "ringsched/simulator/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

constexpr double kPerPicosecond = 1e-3;  // 1 GB/s is 1e9 bytes in 1e12 ps

std::uint32_t rounded_up(std::uint32_t n, std::uint32_t d) { return (n + d - 1) / d; }

// What a message takes beyond its bytes at the full rate. Between two sizes of the table,
// interpolate in the logarithm of the size. Shorter messages go linearly to the latency of an empty
// one; longer ones take the same as the longest.
double startup(const LinkFigures& link, double bytes) {
  const double latency = link.latency_us * 1e6;
  if (link.messages.empty() || bytes <= 0) return latency;
  const auto beyond = [&](double size, double gb_per_s) {
    return std::max(latency,
                    size / (gb_per_s * kPerPicosecond) - size / (link.gb_per_s * kPerPicosecond));
  };
  const MessageRate& first = link.messages.front();
  const MessageRate& last = link.messages.back();
  if (bytes <= first.bytes)
    return latency + bytes / first.bytes * (beyond(first.bytes, first.gb_per_s) - latency);
  if (bytes >= last.bytes) return beyond(last.bytes, last.gb_per_s);
  const auto above = std::upper_bound(link.messages.begin(), link.messages.end(), bytes,
                                      [](double b, const MessageRate& m) { return b < m.bytes; });
  const auto below = above - 1;
  const double at = std::log(bytes / below->bytes) / std::log(above->bytes / below->bytes);
  return beyond(bytes, below->gb_per_s * std::pow(above->gb_per_s / below->gb_per_s, at));
}

}  // namespace

Network::Network(const Machine& m, std::uint32_t workers)
    : workers_(workers),
      per_node_(m.ideal ? std::max(workers, 1u) : m.devices_per_node),
      fabric_(m.fabric),
      network_(m.network),
      memory_gb_per_s_(m.memory_gb_per_s) {
  if (m.ideal) return;
  const std::uint32_t devices = m.devices();
  workers_per_device_ = rounded_up(workers, devices);
  if (workers_per_device_ > m.workers_per_device)
    fail("{} workers do not fit on machine '{}': it has {} device{} with {} worker{} each; {}",
         workers, m.name, devices, devices == 1 ? "" : "s", m.workers_per_device,
         m.workers_per_device == 1 ? "" : "s",
         m.made_by.find("--backend cuda") != m.made_by.npos
             ? fmt::format("measure it again with --workers {}", workers)
             : "use another machine, or your own profile with more nodes or with more workers per "
               "device "
               "(workers_each in the profile)");
  const double rate = fabric_.link.gb_per_s;
  switch (fabric_.kind) {
    case Fabric::Free:
      break;
    case Fabric::Switch:
      out_ = {add("device {} out", devices, rate)};
      in_ = {add("device {} in", devices, rate)};
      if (fabric_.core_gb_per_s > 0) core_ = {add("switch {}", m.nodes, fabric_.core_gb_per_s)};
      break;
    case Fabric::Mesh:
      mesh_ = {add("mesh {}", devices * per_node_, rate)};
      break;
    case Fabric::Pcie: {
      out_ = {add("device {} out", devices, rate)};
      in_ = {add("device {} in", devices, rate)};
      const std::uint32_t switches = m.nodes * rounded_up(per_node_, fabric_.per_switch);
      switch_out_ = {add("PCIe switch {} out", switches, fabric_.uplink_gb_per_s)};
      switch_in_ = {add("PCIe switch {} in", switches, fabric_.uplink_gb_per_s)};
      if (fabric_.host_gb_per_s > 0) host_ = {add("host {}", m.nodes, fabric_.host_gb_per_s)};
      break;
    }
    case Fabric::Memory:
      memory_ = {add("memory {}", m.nodes, rate)};
      break;
  }
  if (m.nodes > 1) {
    const std::uint32_t nics = m.nodes * network_.nics;
    nic_out_ = {add("NIC {} out", nics, network_.link.gb_per_s)};
    nic_in_ = {add("NIC {} in", nics, network_.link.gb_per_s)};
    if (network_.oversubscription > 1)
      network_core_ = {
          add("network core", 1, nics * network_.link.gb_per_s / network_.oversubscription)};
  }
}

std::uint32_t Network::add(const char* what, std::uint32_t count, double gb_per_s) {
  const std::uint32_t first = links();
  groups_.push_back({what, first, count, gb_per_s * kPerPicosecond});
  return first;
}

std::uint32_t Network::links() const {
  return groups_.empty() ? 0 : groups_.back().first + groups_.back().count;
}

const Network::Group& Network::group(LinkId link) const {
  std::size_t g = groups_.size() - 1;
  while (groups_[g].first > link.value) --g;
  return groups_[g];
}

std::string Network::name(LinkId link) const {
  const Group& g = group(link);
  const std::uint32_t at = link.value - g.first;
  if (mesh_.valid() && g.first == mesh_.value) {
    const std::uint32_t from = at / per_node_;
    return fmt::format("device {} to {}", from, node(from) * per_node_ + at % per_node_);
  }
  return fmt::format(fmt::runtime(g.what), at);
}

// The devices of a node share its NICs evenly, in order.
std::uint32_t Network::nic(std::uint32_t device) const {
  const std::uint32_t at = device % per_node_;
  return node(device) * network_.nics +
         static_cast<std::uint32_t>(std::uint64_t{at} * network_.nics / per_node_);
}

Distance Network::distance(WorkerId from, WorkerId to) const {
  const std::uint32_t a = device(from), b = device(to);
  if (a == b) return Distance::SameDevice;
  return node(a) == node(b) ? Distance::SameNode : Distance::OtherNode;
}

void Network::inside(Route& route, std::uint32_t from, std::uint32_t to) const {
  const auto over = [&](LinkId first, std::uint32_t at) {
    if (first.valid()) route.links[route.count++] = {first.value + at};
  };
  const std::uint32_t here = node(from);
  switch (fabric_.kind) {
    case Fabric::Free:
      break;
    case Fabric::Switch:
      over(out_, from);
      over(core_, here);
      over(in_, to);
      break;
    case Fabric::Mesh:
      over(mesh_, from * per_node_ + to % per_node_);
      break;
    case Fabric::Pcie: {
      const std::uint32_t per_node = rounded_up(per_node_, fabric_.per_switch);
      const auto switch_of = [&](std::uint32_t d) {
        return here * per_node + d % per_node_ / fabric_.per_switch;
      };
      over(out_, from);
      if (switch_of(from) != switch_of(to)) {
        over(switch_out_, switch_of(from));
        over(host_, here);
        over(switch_in_, switch_of(to));
      }
      over(in_, to);
      break;
    }
    case Fabric::Memory:
      over(memory_, here);
      break;
  }
}

Route Network::route(WorkerId from, WorkerId to) const {
  Route route;
  const std::uint32_t a = device(from), b = device(to);
  route.distance = distance(from, to);
  if (route.distance == Distance::OtherNode) {
    route = between(nic(a), nic(b));
  } else if (route.distance == Distance::SameNode || fabric_.kind == Fabric::Memory) {
    inside(route, a, b);
  }
  return route;
}

Route Network::between(std::uint32_t from_nic, std::uint32_t to_nic) const {
  Route route;
  route.distance = Distance::OtherNode;
  route.links[route.count++] = {nic_out_.value + from_nic};
  if (network_core_.valid()) route.links[route.count++] = network_core_;
  route.links[route.count++] = {nic_in_.value + to_nic};
  return route;
}

double Network::startup_ps(Distance distance, double bytes) const {
  if (distance == Distance::OtherNode) return startup(network_.link, bytes);
  if (distance == Distance::SameNode || fabric_.kind == Fabric::Memory)
    return startup(fabric_.link, bytes);
  // A copy on one device: each byte is read and written.
  return memory_gb_per_s_ > 0 ? 2 * bytes / (memory_gb_per_s_ * kPerPicosecond) : 0;
}

double Network::rate(const Route& route) const {
  double rate = std::numeric_limits<double>::infinity();
  for (const LinkId link : route.over()) rate = std::min(rate, capacity(link));
  return rate;
}

}  // namespace ringsched
