// Measures messages between workers by size, over the transports that runs use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

enum class LinkPattern : std::uint8_t {
  Next,   // each sends to the next and receives from the one before, all at once
  Alone,  // the first and the last send to each other in turn; no other process sends
};

struct LinkBenchOptions {
  std::int64_t least = 8, most = std::int64_t{64} << 20;  // bytes
  double factor = 4;
  int rounds = 20, warm_up = 5;  // messages of one sample; those before the first sample
};

struct LinkPoint {
  std::int64_t bytes = 0;
  double us = 0;           // of one message, on the slowest worker
  std::int64_t wrong = 0;  // bytes that did not arrive as they were sent
  bool settled = false;    // its samples were alike

  double gb_per_s() const { return us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0; }
};

std::vector<std::int64_t> sizes_of(const LinkBenchOptions&);

// How many processes of the world are on this machine. Together with all of them.
std::uint32_t processes_here(World&);
// Which of these processes this one is: what its launcher says, or their order if the launcher does
// not tell all of them. Together with all of them.
std::uint32_t place_here(World&, std::optional<std::uint32_t> said);

struct LinkSample {
  double seconds = 0;      // of all its messages, on this process
  std::int64_t wrong = 0;  // bytes
};
// Samples one size until its times settle (runtime/samples.hpp), or for two seconds. All processes
// call it together and take the same number of samples; `messages` says how many one sample times
// one after the other.
LinkPoint settled_point(World&, std::int64_t bytes, int messages,
                        const std::function<LinkSample()>& sample);

// Together with all processes of the world, one worker each; two threads if there is one process.
// Calls `begins` with each size before measuring it. Throws RunFailed.
std::vector<LinkPoint> measure_links(World&, Control&, LinkPattern, const LinkBenchOptions&,
                                     const std::function<void(std::int64_t)>& begins);

}  // namespace ringsched
