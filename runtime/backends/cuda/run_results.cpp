// How far a run has come, what went wrong, and the times of its tasks.
#include <algorithm>

#include "backends/cuda/run.hpp"
#include "ringsched/scheduler/task_name.hpp"

namespace ringsched::cuda {

bool GpuRun::finished(WorkerId w) {
  if (failed_) return true;
  for (std::uint32_t l = 0; l < plan_.lane_count(); ++l) {
    const cudaStream_t lane = stream(w, static_cast<Lane>(l));
    const cudaError_t status = cudaStreamQuery(graph_ ? gates_[0]->stream() : lane);
    if (status == cudaErrorNotReady) return false;
    if (status == cudaSuccess) continue;
    failed_ = true;
    control_.stop(
        fmt::format("GPU {}: {}", workers_[w.value].gpu->index(), cudaGetErrorString(status)));
    return true;
  }
  return true;
}

void GpuRun::look_for_what_is_not_finite() {
  if (looked_ || failed_ || !options_.check_finite || !prepared_) return;
  looked_ = true;
  std::uint32_t first = ~0u;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    std::uint32_t found = ~0u;
    cudaError_t read = cudaSetDevice(gpus_[g].index());
    if (read == cudaSuccess)
      read = cudaMemcpy(&found, not_finite_[g].get(), 4, cudaMemcpyDeviceToHost);
    if (read != cudaSuccess)
      return control_.stop(fmt::format("GPU {}: looking for numbers that are not finite: {}",
                                       gpus_[g].index(), cudaGetErrorString(read)));
    first = std::min(first, found);
  }
  if (first != ~0u)
    control_.stop(
        fmt::format("{}: it produced a number that is not finite", name_of(plan_, {first})));
}

std::int64_t GpuRun::since_zero(WorkerId w, const Event& event) const {
  const Event& zero = graph_ ? *graph_zero_ : gates_[index_of(*workers_[w.value].gpu)]->opened();
  float ms = 0;
  if (cudaEventElapsedTime(&ms, zero.get(), event.get()) != cudaSuccess) {
    cudaGetLastError();
    return TaskTime::kNotYet;
  }
  return late_.count() + static_cast<std::int64_t>(std::max(0.0, 1e6 * static_cast<double>(ms)));
}

TaskTime GpuRun::time_of(TaskId task) const {
  const TaskId front = front_[task.value];
  if (!prepared_) return {};
  const WorkerId w = plan_.tasks[task.value].worker();
  return {since_zero(w, *begins_[front.value]), since_zero(w, *ends_[streams_.end_event(front)])};
}

LaneState GpuRun::state(WorkerId w, Lane lane) const {
  if (!prepared_) return {};
  for (const Op& op : streams_.lanes()[numbers_.of(w, lane)]) {
    if (op.kind != Op::Kind::Begin) continue;
    const Event& begin = *begins_[op.task.value];
    if (cudaEventQuery(begin.get()) != cudaSuccess) return {};
    if (cudaEventQuery(ends_[streams_.end_event(op.task)]->get()) == cudaErrorNotReady)
      return {op.task, since_zero(w, begin)};
  }
  return {};
}

}  // namespace ringsched::cuda
