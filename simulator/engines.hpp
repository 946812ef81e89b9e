// The two engines that simulate a workload. Where both apply they agree to the picosecond, and a
// test checks that.
#pragma once

#include <algorithm>

#include "costs.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// One pass over the tasks in their order, without events: a task starts at the latest end of what
// it waits for. Only where nothing is shared: no link by two messages at once, no device by two
// kernels, no SM by both, and no exchanges. False where something is, or where the order of ids
// does not do; what is in the simulation is then to be thrown away.
bool in_one_pass(const Workload&, const Costs&, Simulation&);

// A queue of events; anything may be shared.
void run_events(const Workload&, const Conditions&, const Costs&, Simulation&);

// No instant is later, and nothing takes longer, so that sums of two still fit: 46 days.
inline constexpr std::int64_t kLatest = 4'000'000'000'000'000'000;

[[noreturn]] void too_late();  // throws Error

inline std::int64_t after(std::int64_t at, std::int64_t took) {
  if (at > kLatest || took > kLatest) too_late();
  return at + took;
}

inline std::int64_t rounded_ps(double ps) {
  if (!(ps >= 0 && ps <= static_cast<double>(kLatest))) too_late();
  return static_cast<std::int64_t>(ps + 0.5);
}

// When bytes at this rate have passed: never before the last of them, to the picosecond.
inline std::int64_t flow_ps(double bytes, double bytes_per_ps) {
  const double exact = std::min(bytes / bytes_per_ps, 2.0 * static_cast<double>(kLatest));
  const auto whole = static_cast<std::int64_t>(exact);
  return whole + (static_cast<double>(whole) < exact ? 1 : 0);
}

}  // namespace ringsched
