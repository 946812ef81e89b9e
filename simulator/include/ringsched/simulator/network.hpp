// The links of a machine, and a message's route over them. Routes follow from the shape of the
// machine, so they are computed on request, never stored for every pair.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

using LinkId = Id<struct LinkTag>;

// How far apart two workers are. Latency and the rate of short messages depend on it alone.
enum class Distance : std::uint8_t { SameDevice, SameNode, OtherNode };
inline constexpr std::size_t kDistances = 3;

struct Route {
  std::array<LinkId, 6> links{};
  std::uint32_t count = 0;
  Distance distance = Distance::SameDevice;

  std::span<const LinkId> over() const& { return {links.data(), count}; }
  std::span<const LinkId> over() && = delete;  // it would outlive the route
  friend bool operator==(const Route&, const Route&) = default;
};

class Network {
 public:
  // Worker w sits on device w / (workers per device).
  Network(const Machine&, std::uint32_t workers);

  std::uint32_t workers() const { return workers_; }
  std::uint32_t workers_per_device() const { return workers_per_device_; }
  std::uint32_t device(WorkerId w) const { return w.value / workers_per_device_; }
  Distance distance(WorkerId from, WorkerId to) const;
  Route route(WorkerId from, WorkerId to) const;
  std::uint32_t node_of(WorkerId w) const { return node(device(w)); }
  // The NIC of a worker's device, and the way from one NIC to one of another node.
  std::uint32_t nic_of(WorkerId w) const { return nic(device(w)); }
  Route between(std::uint32_t from_nic, std::uint32_t to_nic) const;

  std::uint32_t links() const;
  double capacity(LinkId l) const { return group(l).bytes_per_ps; }
  std::string name(LinkId) const;

  // The time before the bytes of a message flow at the rate of its route.
  double startup_ps(Distance, double bytes) const;
  double rate(const Route&) const;  // of one flow alone, bytes per picosecond; infinite: no limit

 private:
  // Links of one kind, numbered one after the other.
  struct Group {
    const char* what;  // "device {} out"
    std::uint32_t first = 0, count = 0;
    double bytes_per_ps = 0;
  };
  std::uint32_t add(const char* what, std::uint32_t count, double gb_per_s);
  const Group& group(LinkId) const;
  std::uint32_t node(std::uint32_t device) const { return device / per_node_; }
  std::uint32_t nic(std::uint32_t device) const;
  void inside(Route&, std::uint32_t from, std::uint32_t to) const;

  std::uint32_t workers_, workers_per_device_ = 1, per_node_;
  FabricFigures fabric_;
  NetworkFigures network_;
  double memory_gb_per_s_ = 0;
  std::vector<Group> groups_;
  // First ids; none where the machine has no such links.
  LinkId out_, in_, core_, switch_out_, switch_in_, host_, mesh_, memory_;
  LinkId nic_out_, nic_in_, network_core_;
};

}  // namespace ringsched
