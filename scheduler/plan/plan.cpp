#include "ringsched/scheduler/plan.hpp"

#include <string_view>

namespace ringsched {

// A backward attend's gradients of keys: of all keys met, for the heads that its query heads read.
Tensor Plan::second_output(const Task& task, TaskId maker) const {
  const Piece& first = piece(task);
  const Statement* const statement = program.statement(task.kind, first.value);
  if (!statement) return {first.value, task.worker(), task.keys, first.columns, maker, false};
  const ValueId value = statement->outputs[1];
  return {value,     task.worker(),
          task.keys, first.columns.grouped(program[value].columns.group),
          maker,     task.completes_output(1)};
}

std::string_view to_text(Lane lane) {
  static constexpr std::string_view names[kLanes] = {"compute", "fetch", "return"};
  return names[static_cast<std::size_t>(lane)];
}

}  // namespace ringsched
