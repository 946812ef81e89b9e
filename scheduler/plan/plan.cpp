#include "ringsched/scheduler/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

// A backward attend's gradients of keys: of all keys met, for the heads that its query heads read.
Piece Plan::second_piece(const Task& task) const {
  const Piece& first = piece(task);
  const Statement* const statement = program.statement(task.kind, first.value);
  if (!statement) return {first.value, task.keys, first.columns};
  const ValueId value = statement->outputs[1];
  return {value, task.keys, first.columns.grouped(program[value].columns.group)};
}

bool Plan::has_own_queries(const Task& attend) const {
  if (!attend.inputs[0].valid()) return false;
  const TaskId maker = producer(attend.inputs[0]);
  return problem.decodes() || !maker.valid() || is_member(tasks[maker.value].kind);
}

std::string refusal_of_lanes(std::span<const std::string> names) {
  constexpr std::size_t kLongest = 40;  // bytes
  if (names.size() < kBasicLanes.size() || names.size() > kMostLanes)
    return fmt::format("there are {} lanes; {} to {} are allowed", names.size(), kBasicLanes.size(),
                       kMostLanes);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (i < kBasicLanes.size() && name != kBasicLanes[i])
      return fmt::format("lane {} is '{}'; it must be '{}'", i, printable(name), kBasicLanes[i]);
    if (name.empty() || name.size() > kLongest)
      return fmt::format("the name of lane {} has {} bytes; 1 to {} are allowed", i, name.size(),
                         kLongest);
    if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return fmt::format("the name of lane {}, '{}', has a control character", i, printable(name));
    if (std::ranges::count(names.first(i), name) > 0)
      return fmt::format("two lanes are called '{}'", printable(name));
  }
  return {};
}

}  // namespace ringsched
