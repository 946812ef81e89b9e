// What the processes of a run put together afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/ending.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// The times of all processes, on each, and how well their clocks agree.
struct Joined {
  Timeline timeline;
  std::chrono::nanoseconds clock_error{};
  double clock_drift = 0;  // the largest
};
// `zero`: when the run began, by this process's clock.
Joined joined(World&, const Plan&, const Timeline& own, const ClockLine&, std::int64_t zero);

// The results of all processes checked, on each.
std::vector<CheckedResults> checked(World&, Watchdog&, const Plan&, const Inputs&, const Execution&,
                                    const CheckOptions&);

}  // namespace ringsched
