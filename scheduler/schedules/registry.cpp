#include <utility>
#include <vector>

#include "builder/mistake.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/schedule.hpp"

// One line for each schedule: function, name, layout, summary, source.
// clang-format off
#define RINGSCHED_SCHEDULES(X)                                                                          \
  X(ring, "ring", contiguous, "keys go round; unbalanced under a causal mask", "Ring Attention, arXiv:2310.01889") \
  X(striped, "striped", striped, "ring over interleaved tokens; every tile half visible", "Striped Attention, arXiv:2311.09431") \
  X(zigzag, "zigzag", zigzag, "ring over head-and-tail pairs; half a block each step", "Llama 3, arXiv:2407.21783, section 3.3.2") \
  X(balanced, "balanced", contiguous, "workers with nothing left to do help others", "DistFlashAttn, arXiv:2310.03294") \
  X(balanced_split, "balanced-split", halves, "balanced, with the last blocks cut in two: no idle slot", "ringsched") \
  // New schedules above this line.
// clang-format on

namespace ringsched {

#define DECLARE(function, name, layout, summary, source) \
  void function(const Problem&, PlanBuilder&);
RINGSCHED_SCHEDULES(DECLARE)
#undef DECLARE

namespace {

#define ROW(function, name, layout, summary, source) {name, summary, source, layout, function},
constexpr Schedule kSchedules[] = {RINGSCHED_SCHEDULES(ROW)};
#undef ROW

}  // namespace

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& find_schedule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Schedule& s : kSchedules) {
    if (s.name == name) return s;
    names.push_back(s.name);
  }
  throw Error(unknown_name("schedule", name, names));
}

Plan build_plan(const Problem& problem, const Schedule& schedule, std::uint64_t most_tasks) {
  require_valid(problem);
  PlanBuilder builder(problem, schedule.layout(problem.workers, problem.tokens), most_tasks);
  try {
    schedule.build(problem, builder);
    return std::move(builder).finish(schedule.name);
  } catch (const ScheduleMistake& mistake) {
    fail("schedule {}, {}", schedule.name, mistake.what());
  }
}

}  // namespace ringsched
