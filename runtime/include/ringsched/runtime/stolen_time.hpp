// What others on the host of a virtual machine take of its processors' time. A measurement during
// which they took much of it is one of another machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringsched {

// Since the machine was started, in ticks: of work, and of waiting for a processor of the host.
struct ProcessorTimes {
  std::int64_t used = 0, stolen = 0;
};
// From the text of /proc/stat; none where that does not say.
std::optional<ProcessorTimes> processor_times(std::string_view text);

class StolenTime {
 public:
  StolenTime();
  // Of the time for which this machine wanted processors since then, what others had: 0 to 1. 0
  // where the system does not say.
  double share() const;

 private:
  std::optional<ProcessorTimes> then_;
};

// From this share on it is worth telling.
inline constexpr double kMuchStolen = 0.02;

}  // namespace ringsched
