// What the reader and the writer of plan files must agree on: the names of fields, and what a
// task's field is when the file leaves it out. The writer leaves out exactly what these return.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched::plan_file {

inline constexpr std::string_view kFormat = "ringsched-plan";
// simdjson counts bytes in 32 bits and wants some room behind the text.
inline constexpr std::size_t kMaxBytes = 0xffffffff - 64;

// What files call the tensors of a value that is given.
struct InitialName {
  ValueId value;
  std::string_view name;
};
inline constexpr std::array<InitialName, 4> kInitialNames = {{{attention::kQuery, "Q"},
                                                              {attention::kKeyValue, "KV"},
                                                              {attention::kOutputGradient, "dO"},
                                                              {attention::kPartial, "O"}}};

// These ask for the kind, the inputs and, of a receive, the peer of a task; inputs must be earlier
// tensors.
Region default_rows(const Plan&, const Task&);
Region default_keys(const Plan&, const Task&);
ValueId default_value(const Plan&, const Task&);
// This one asks for the kind and for what the task makes.
Lane default_lane(const Plan&, const Task&);

}  // namespace ringsched::plan_file
