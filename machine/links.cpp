// What messages find of a link.
#include <algorithm>
#include <bit>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

namespace {

// A message gets twice the channels for each doubling from this many bytes per channel on.
constexpr double kBytesPerChannel = 16 << 20;

std::uint32_t fewest_channels(std::uint32_t channels, std::uint32_t ranks) {
  return std::bit_floor(std::max(1u, channels / std::max(1u, ranks)));
}

// NCCL splits its channels, usually 32, among the ranks of a communicator, and doubles those of one
// message from 16 MiB per channel on (5067397, src/enqueue.cc, addP2pToPlan and
// calcP2pChannelCount; the number of channels: src/graph/paths.cc). Until a message has all
// channels, it is as fast as its channels.
std::vector<MessageRate> by_channels(double channel, std::uint32_t channels, double link,
                                     std::uint32_t ranks) {
  std::vector<MessageRate> out;
  for (std::uint32_t n = fewest_channels(channels, ranks); n <= channels; n *= 2) {
    const double rate = std::min(link, channel * n);
    out.push_back({kBytesPerChannel * n, rate});
    if (rate >= link) break;
  }
  return out;
}

}  // namespace

LinkFigures link_among(const FabricFigures& f, std::uint32_t ranks) {
  if (!(f.channel_gb_per_s > 0) || !f.link.messages.empty()) return f.link;
  LinkFigures out = f.link;
  out.gb_per_s /= f.wire_change;
  const double latency_us = out.latency_us;
  out.messages = by_channels(f.channel_gb_per_s, f.channels, out.gb_per_s, ranks);
  scale(out, f.wire_change, f.startup_change);
  out.latency_us = latency_us;  // it has changed before
  return out;
}

std::uint32_t channels_of(const FabricFigures& f, std::uint32_t ranks, double bytes) {
  std::uint32_t n = fewest_channels(f.channels, ranks);
  while (2 * n <= f.channels && bytes >= kBytesPerChannel * n &&
         n * f.channel_gb_per_s < f.link.gb_per_s)
    n *= 2;
  return n;
}

void scale(LinkFigures& link, double bandwidth, double latency) {
  double before = 0;  // a longer message must not arrive sooner
  for (MessageRate& m : link.messages) {
    const double wire = m.bytes / link.gb_per_s, all = m.bytes / m.gb_per_s;
    before = std::max(before, wire / bandwidth + latency * std::max(0.0, all - wire));
    m.gb_per_s = std::min(m.bytes / before, link.gb_per_s * bandwidth);
  }
  link.gb_per_s *= bandwidth;
  link.latency_us *= latency;
}

void scale(FabricFigures& f, double bandwidth, double latency) {
  scale(f.link, bandwidth, latency);
  f.wire_change *= bandwidth;
  f.startup_change *= latency;
}

}  // namespace ringsched
