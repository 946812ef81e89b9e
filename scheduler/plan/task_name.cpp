#include "ringsched/scheduler/task_name.hpp"

#include <fmt/format.h>

namespace ringsched {

std::string name_of(Region r) {
  if (r.count == 0) return "nothing";
  return r.count == 1 ? fmt::format("chunk {}", r.first.value)
                      : fmt::format("chunks {}-{}", r.first.value, r.end() - 1);
}

std::string name_of(const Axis& axis, ColumnRange c) {
  return c.count == 1 ? fmt::format("{} {}", axis.name, c.first)
                      : fmt::format("{} {}-{}", axis.name, c.first, c.end() - 1);
}

std::string name_of(const Plan& plan, TaskId id) {
  const Task& t = plan.tasks[id.value];
  const auto region = [&](RegionId r) {
    return r.value < plan.regions.size() ? name_of(plan.regions[r.value]) : "no chunk";
  };
  std::string what(to_text(t.kind));
  if (t.piece.value >= plan.pieces.size()) {
    what += " of no piece";
  } else if (is_attend(t.kind)) {
    what += fmt::format(" of query {} with key {}", region(plan.rows(t)), region(t.keys));
  } else {
    const std::string_view name = plan.name(plan.value(t));
    what += fmt::format(" of {} {}{}", name, name.ends_with("partial") ? "result of " : "",
                        region(plan.rows(t)));
  }
  if (is_transfer(t.kind) && t.peer.value < plan.tasks.size())
    what += fmt::format(" {} worker {}", is_send(t.kind) ? "to" : "from",
                        plan.tasks[t.peer.value].worker_index);
  return fmt::format("task {} (worker {}, step {}, {})", id.value, t.worker_index, t.step, what);
}

}  // namespace ringsched
