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

std::vector<std::int64_t> work_left(const Plan& plan, std::span<const TaskId> of_one_worker) {
  std::vector<std::int64_t> out(of_one_worker.size());
  std::int64_t left = 0;
  for (std::size_t i = of_one_worker.size(); i-- > 0;) {
    const Task& task = plan.tasks[of_one_worker[i].value];
    if (is_attend(task.kind)) left += plan.works[task.work.value].pairs.value;
    out[i] = left;
  }
  return out;
}

}  // namespace ringsched
