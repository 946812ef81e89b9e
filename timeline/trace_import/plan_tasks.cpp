// A plan as each worker would run it.
#include <algorithm>

#include "matching.hpp"

namespace ringsched::trace_import {

namespace {

// The first step of the backward pass, which begins when gradients are prepared.
std::uint64_t first_backward_step(const Plan& plan) {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const Task& t : plan.tasks)
    if (is_backward(t.kind) || t.kind == TaskKind::Prepare)
      first = std::min<std::uint64_t>(first, t.step);
  return plan.problem.pass == Pass::Backward ? 0 : first;
}

}  // namespace

std::vector<WorkerTasks> tasks_by_worker(const Plan& plan) {
  const std::uint64_t backward = first_backward_step(plan);
  std::vector<WorkerTasks> out(plan.problem.workers);
  for (std::uint32_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    PassTasks& pass = out[t.worker_index].passes[t.step >= backward ? 1 : 0];
    if (is_attend(t.kind)) pass.attends.push_back({i});
    (communicates(t.kind) ? pass.messages : pass.computes).push_back({i});
  }
  return out;
}

}  // namespace ringsched::trace_import
