// How much processor time others take: other programs on this machine, and others on the host of a
// virtual machine. A measurement during which they took much of it describes another machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ringsched {

// Since the machine started, in ticks: of work, and of waiting for a processor of the host.
struct ProcessorTimes {
  std::int64_t used = 0, stolen = 0;
};
// From the text of /proc/stat; empty if it does not say.
std::optional<ProcessorTimes> processor_times(std::string_view text);
// The same of these cores together.
std::optional<ProcessorTimes> processor_times(std::string_view text, const std::vector<int>& cores);

class StolenTime {
 public:
  StolenTime();
  // Out of the time for which this machine wanted processors since then, the share that others had:
  // 0 to 1. 0 if the system does not say.
  double share() const;

 private:
  std::optional<ProcessorTimes> then_;
};

// Other programs on the cores that this process may use.
class OtherPrograms {
 public:
  OtherPrograms();
  // How many of the cores they kept busy since then, on average. 0 if the system does not say.
  double cores() const;

 private:
  std::vector<int> cores_;
  std::optional<ProcessorTimes> then_;
  std::chrono::nanoseconds own_then_;
  std::chrono::steady_clock::time_point since_;
};

// From these shares on it is worth reporting: of the time wanted, and of the cores.
inline constexpr double kMuchStolen = 0.02, kMuchOther = 0.05;

}  // namespace ringsched
