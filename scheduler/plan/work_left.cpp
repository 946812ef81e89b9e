#include "ringsched/scheduler/work_left.hpp"

namespace ringsched {

std::vector<std::int64_t> work_left(const Plan& plan) {
  std::vector<std::int64_t> out(plan.tasks.size());
  std::vector<std::int64_t> left(plan.problem.workers);
  for (std::size_t id = plan.tasks.size(); id-- > 0;) {
    const Task& task = plan.tasks[id];
    if (is_attend(task.kind)) left[task.worker_index] += plan.works[task.work.value].pairs.value;
    out[id] = left[task.worker_index];
  }
  return out;
}

}  // namespace ringsched
