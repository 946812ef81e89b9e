// What events of a trace are, by their names.
#pragma once

#include <optional>
#include <string_view>

#include "ringsched/timeline/trace_import.hpp"

namespace ringsched::trace_import {

struct Named {
  TraceWork work = TraceWork::Compute;
  ExchangeForm form = ExchangeForm::Other;
};

// Empty if it is of no interest. `collective` is what the profiler says about the kernel, if
// anything.
std::optional<Named> kernel_named(std::string_view name, std::string_view collective = {});
std::optional<Named> cpu_event_named(std::string_view name);

// The ranges that ringsched.torch puts around each attend.
inline constexpr std::string_view kOurAttend = "ringsched::attend";
inline constexpr std::string_view kOurAttendBackward = "ringsched::attend_backward";

}  // namespace ringsched::trace_import
