// What messages find of a link.
#include <algorithm>
#include <bit>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

namespace {

// Beyond this many bytes per channel, a tensor gets twice the channels.
constexpr double kBytesPerChannel = 16 << 20;
constexpr double kLongest = 1e15;  // in bytes: longer than any message

std::uint32_t fewest_channels(const FabricFigures& f, std::uint32_t ranks) {
  const std::uint32_t usual = std::bit_floor(std::max(1u, f.channels / std::max(1u, ranks)));
  const double more = std::clamp(usual * f.more_channels, 1.0, 1.0 * f.channels);
  return std::bit_floor(static_cast<std::uint32_t>(more));
}

// NCCL splits its channels, usually 32, among the ranks of a communicator, and doubles those of one
// tensor beyond each 16 MiB per channel (5067397, src/enqueue.cc, addP2pToPlan; the number of
// channels: src/graph/paths.cc). Tensors that go to one peer at once share channels. Until a tensor
// has all channels, it is as fast as its channels. So a slightly longer one may arrive sooner.
std::vector<MessageRate> by_channels(const FabricFigures& f, std::uint32_t ranks,
                                     std::uint32_t tensors) {
  std::vector<MessageRate> out;
  const double link = f.link.gb_per_s;
  for (std::uint32_t n = fewest_channels(f, ranks); n <= f.channels; n *= 2) {
    const double rate = std::min(link, f.channel_gb_per_s * n);
    if (!out.empty()) out.push_back({out.back().bytes + 1, rate});
    out.push_back({kBytesPerChannel * n * tensors, rate});
    if (rate >= link) return out;
  }
  out.push_back({kLongest, out.back().gb_per_s});  // all channels are slower than the link
  return out;
}

// If bytes move `bandwidth` times as fast on the link, and all that messages take beyond them takes
// `latency` times as long. If a longer message took no less time before, it takes no less now.
void scale_rates(std::vector<MessageRate>& rates, double link, double bandwidth, double latency) {
  double before = 0, now = 0;
  for (MessageRate& m : rates) {
    const double wire = m.bytes / link, all = m.bytes / m.gb_per_s;
    const double scaled = wire / bandwidth + latency * std::max(0.0, all - wire);
    now = all >= before ? std::max(now, scaled) : scaled;
    before = all;
    m.gb_per_s = std::min(m.bytes / now, link * bandwidth);
  }
}

}  // namespace

LinkFigures link_among(const FabricFigures& f, std::uint32_t ranks, std::uint32_t tensors) {
  if (!has_channels(f)) return f.link;
  LinkFigures out = f.link;
  out.messages = by_channels(f, ranks, tensors);
  return out;
}

std::uint32_t channels_of(const FabricFigures& f, std::uint32_t ranks, double bytes) {
  std::uint32_t n = fewest_channels(f, ranks);
  while (2 * n <= f.channels && bytes > kBytesPerChannel * n &&
         n * f.channel_gb_per_s < f.link.gb_per_s)
    n *= 2;
  return n;
}

void scale(LinkFigures& link, double bandwidth, double latency) {
  scale_rates(link.messages, link.gb_per_s, bandwidth, latency);
  link.gb_per_s *= bandwidth;
  link.latency_us *= latency;
}

}  // namespace ringsched
