#include "ringsched/simulator/what_if.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

double factor(std::string_view text, std::string_view change) {
  if (text.ends_with('x')) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1e6))
    fail("--what-if {}: use a factor from 0 to 1000000, such as 2x or 0.5x", change);
  return value;
}

double above_zero(double value, std::string_view change) {
  if (value <= 0) fail("--what-if {}: the factor must be above 0", change);
  return value;
}

// The same rates, with points so close that a change of each changes those between them alike.
std::vector<MessageRate> finer(const std::vector<MessageRate>& rates) {
  std::vector<MessageRate> out;
  for (const MessageRate& m : rates) {
    if (!out.empty()) {
      const MessageRate from = out.back();
      const double steps = std::ceil(std::log2(m.bytes / from.bytes));
      for (double i = 1; i < steps; ++i)
        out.push_back({from.bytes * std::pow(m.bytes / from.bytes, i / steps),
                       from.gb_per_s * std::pow(m.gb_per_s / from.gb_per_s, i / steps)});
    }
    out.push_back(m);
  }
  return out;
}

// The latency of its links is the start-up of a collective.
void scale(CollectiveTable& c, double latency_us, double bandwidth, double latency) {
  c.busbw = finer(c.busbw);
  for (MessageRate& m : c.busbw) {
    const double members = static_cast<double>(c.nodes) * c.per_node;
    const double bytes = m.bytes * moved_share(c.kind, members), all = bytes / m.gb_per_s;
    const double start = std::min(all, latency_us * 1e3);
    const double scaled = (all - start) / bandwidth + start * latency;
    m.gb_per_s = bytes / std::max(scaled, all * 1e-9);  // the first may be nothing but latency
  }
}

// The links inside nodes.
void scale_fabric(Machine& m, double bandwidth, double latency) {
  for (CollectiveTable& c : m.collectives)
    if (c.nodes == 1) scale(c, m.fabric.link.latency_us, bandwidth, latency);
  scale(m.fabric.link, bandwidth, latency);
  for (double* rate : {&m.fabric.core_gb_per_s, &m.fabric.uplink_gb_per_s, &m.fabric.host_gb_per_s})
    *rate *= bandwidth;
}

// The links between them.
void scale_network(Machine& m, double bandwidth, double latency) {
  for (CollectiveTable& c : m.collectives)
    if (c.nodes > 1) scale(c, m.network.link.latency_us, bandwidth, latency);
  scale(m.network.link, bandwidth, latency);
}

}  // namespace

const std::vector<KnownChange>& known_changes() {
  static const std::vector<KnownChange> changes = {
      {"bandwidth=2x", "multiplies the bandwidth of all links"},
      {"fabric=2x", "... of the links inside nodes"},
      {"network=2x", "... of the links between nodes"},
      {"channels=2x", "gives each message this many times as many of NCCL's channels"},
      {"latency=0x", "multiplies the start-up time of messages"},
      {"kernels=2x", "makes attention kernels this many times as fast"},
      {"memory=2x", "makes passes over memory (merges) this many times as fast"},
      {"host=2x", "makes the host issue work this many times as fast"},
      {"communication-sms=0", "sets the SMs that transfers hold; nothing else slows kernels"},
      {"worker:3=2x", "makes this worker this many times as slow"},
  };
  return changes;
}

Machine with_thread_blocks(Machine m, std::uint32_t blocks) {
  if (blocks == 0) return m;
  m.comm_sms = std::min(m.comm_sms, blocks);
  m.fabric.channels = std::min(m.fabric.channels, blocks);
  return m;
}

Setup changed(Setup s, std::string_view given, std::uint32_t workers) {
  const std::size_t equals = given.find('=');
  const std::string_view name = given.substr(0, equals);
  const std::string change = printable(given);  // as messages show it
  if (equals == std::string_view::npos)
    fail("--what-if {}: use NAME=FACTOR, such as {}", change, known_changes()[0].name);
  const double by = factor(given.substr(equals + 1), change);
  const auto needs_machine = [&] {
    if (s.machine.ideal)
      fail(
          "--what-if {}: machine 'ideal' has no such figure, as it only counts blocks; use another "
          "--machine",
          change);
  };
  if (name == "bandwidth") {
    needs_machine();
    scale_fabric(s.machine, above_zero(by, change), 1);
    scale_network(s.machine, by, 1);
  } else if (name == "fabric") {
    needs_machine();
    scale_fabric(s.machine, above_zero(by, change), 1);
  } else if (name == "network") {
    needs_machine();
    if (s.machine.nodes == 1)
      fail("--what-if {}: machine '{}' has one node, so there is no network", change,
           s.machine.name);
    scale_network(s.machine, above_zero(by, change), 1);
  } else if (name == "channels") {
    needs_machine();
    if (!has_channels(s.machine.fabric))
      fail(
          "--what-if {}: messages of machine '{}' do not go by channels ([fabric] has no "
          "channel_gb_per_s)",
          change, s.machine.name);
    s.machine.fabric.more_channels *= above_zero(by, change);
  } else if (name == "latency") {
    needs_machine();
    scale_fabric(s.machine, 1, by);
    scale_network(s.machine, 1, by);
  } else if (name == "kernels") {
    needs_machine();
    for (KernelTable& k : s.machine.kernels) {
      for (double& t : k.tflops) t *= above_zero(by, change);
      k.sustained_tflops *= by;
    }
  } else if (name == "memory") {
    needs_machine();
    s.machine.memory_gb_per_s *= above_zero(by, change);
    s.machine.memory_change *= by;
  } else if (name == "host") {
    needs_machine();
    HostFigures& h = s.machine.software.host;
    if (h.issues_in_no_time())
      fail(
          "--what-if {}: the host of machine '{}' takes no time to issue work, as its profile has "
          "no [host]; add --software with a library that has one, such as ring-flash-attention",
          change, s.machine.name);
    for (double* us : {&h.call_us, &h.call_backward_us, &h.attend_us, &h.attend_backward_us,
                       &h.merge_us, &h.slice_us, &h.pass_us, &h.post_us, &h.exchange_us, &h.step_us,
                       &h.synchronise_us, &h.graph_us, &h.graph_node_us})
      *us /= above_zero(by, change);
  } else if (name == "communication-sms") {
    needs_machine();
    if (by != std::floor(by) || (by > 0 && by >= s.machine.sms))
      fail("--what-if {}: use a whole number below {}, the SMs of the device", change,
           s.machine.sms);
    s.machine.comm_sms = static_cast<std::uint32_t>(by);
    s.machine.comm_sms_set = true;
    s.machine.comm_slowdown = 1;
    if (by == 0) s.machine.comm_waits_for_kernel = false;  // copy engines do not wait
  } else if (name.starts_with("worker:")) {
    const std::string_view number = name.substr(7);
    std::uint32_t w = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), w);
    if (error != std::errc() || end != number.data() + number.size() || w >= workers)
      fail("--what-if {}: the worker must be 0 to {}", change, workers - 1);
    s.conditions.slow_worker.resize(workers, 1);
    s.conditions.slow_worker[w] *= by;
  } else if (name == "worker") {
    fail("--what-if {}: which worker? Write, for example, worker:3={:g}x", change, by);
  } else {
    std::vector<std::string_view> names;
    for (const KnownChange& k : known_changes())
      names.push_back(k.name.substr(0, k.name.find_first_of(":=")));
    throw Error(unknown_name("--what-if change", name, names));
  }
  return s;
}

}  // namespace ringsched
