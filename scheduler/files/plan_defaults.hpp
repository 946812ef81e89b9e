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

// In the order PlanBuilder makes them.
struct InitialName {
  TensorKind kind;
  std::string_view name;
};
inline constexpr std::array<InitialName, 4> kInitialNames = {{{TensorKind::Query, "Q"},
                                                              {TensorKind::KeyValue, "KV"},
                                                              {TensorKind::OutputGradient, "dO"},
                                                              {TensorKind::Partial, "O"}}};
// How many of kInitialNames there are, one tensor each per worker.
std::size_t initial_kinds(Pass);

// These ask for the kind, the inputs and, of a receive, the peer of a task; inputs must be earlier
// tensors.
Region default_rows(const Plan&, const Task&);
Region default_keys(const Plan&, const Task&);
TensorKind default_tensor(const Plan&, const Task&);
// This one asks for the kind and for what the task makes.
Lane default_lane(const Task&);

std::size_t inputs_of(TaskKind);

}  // namespace ringsched::plan_file
