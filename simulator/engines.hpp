// The two engines that simulate a workload. If both apply they agree to the picosecond, and a test
// checks that.
#pragma once

#include <algorithm>

#include "costs.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// One pass over the tasks in order, without events: a task starts at the latest end of what it
// waits for. It works only if nothing is shared: no link by two messages at once, no device by two
// kernels, no SM by both, and no exchanges. It returns false if something is shared, or if the
// order of ids does not work; then discard the simulation.
bool in_one_pass(const Workload&, const Costs&, Simulation&);

// A queue of events; anything may be shared.
void run_events(const Workload&, const Conditions&, const Costs&, Simulation&);

// No instant is later, and nothing takes longer, so that the sum of two times still fits: 46 days.
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

// When bytes at this rate have passed: the picosecond after the last of them, never before.
inline std::int64_t flow_ps(double bytes, double bytes_per_ps) {
  const double exact = std::min(bytes / bytes_per_ps, 2.0 * static_cast<double>(kLatest));
  const auto whole = static_cast<std::int64_t>(exact);
  return whole + (static_cast<double>(whole) < exact ? 1 : 0);
}

}  // namespace ringsched
