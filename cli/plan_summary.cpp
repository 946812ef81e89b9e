#include "plan_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/printable.hpp"
#include "text.hpp"

namespace ringsched {

PlanSummary summarise(const Plan& plan) {
  PlanSummary s;
  s.messages.resize(plan.program.size());
  s.moved.resize(plan.program.size());
  for (const Task& task : plan.tasks) {
    const Work& work = plan.works[task.work.value];
    ++s.tasks[static_cast<std::size_t>(task.kind)];
    s.steps = std::max<std::int64_t>(s.steps, std::int64_t{task.step} + 1);
    if (is_attend(task.kind)) s.pairs += work.pairs;
    if (is_receive(task.kind)) {
      ++s.messages[plan.value(task).value];
      Bytes& moved = s.moved[plan.value(task).value];
      moved = capped_sum(moved, work.bytes);
    }
  }
  const auto size_of_all = [](const auto& v) {
    return static_cast<std::int64_t>(v.size() * sizeof(v[0]));
  };
  s.plan_memory = {size_of_all(plan.tasks) + size_of_all(plan.controls) + size_of_all(plan.slots) +
                   size_of_all(plan.works) + size_of_all(plan.regions) + size_of_all(plan.initial) +
                   size_of_all(plan.pieces)};
  return s;
}

std::string headline(const Plan& plan) {
  return fmt::format("{}: {}, {}", plan.schedule.empty() ? "plan" : printable(plan.schedule),
                     counted(plan.problem.workers, "worker"), described(plan.problem));
}

std::string tasks_line(const PlanSummary& s) {
  static constexpr std::string_view nouns[kTaskKinds] = {
      "attend", "backward attend", "prepare", "merge", "reduce",
      "send",   "receive",         "output",  "round", "exchange"};
  std::string line;
  for (std::size_t k = 0; k < kTaskKinds; ++k)
    if (s.tasks[k] > 0)
      line += fmt::format("{}{}", line.empty() ? "" : ", ", counted(s.tasks[k], nouns[k]));
  return line;
}

std::string moves_line(const Plan& plan, const PlanSummary& s) {
  std::string line;
  for (std::size_t k = 0; k < s.messages.size(); ++k)
    if (s.messages[k] > 0)
      line += fmt::format("{}{} {} ({})", line.empty() ? "" : ", ", grouped(s.messages[k]),
                          plan.program.values[k].name, human(s.moved[k]));
  return line.empty() ? "nothing" : line;
}

}  // namespace ringsched
