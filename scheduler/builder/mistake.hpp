// A call in a schedule that cannot be planned: its author's mistake. The builder says where and
// what; build_plan() adds the schedule's name.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class ScheduleMistake : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void mistake_at(Step step, fmt::format_string<Args...> text, Args&&... args) {
  throw ScheduleMistake(
      fmt::format("step {}: {}", step, fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace ringsched
