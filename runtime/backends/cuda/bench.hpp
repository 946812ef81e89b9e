// Runs tasks alone, with memory of their own, to time them again and again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/lowering.hpp"
#include "ringsched/runtime/memory_plan.hpp"

namespace ringsched::cuda {

// A ring with as many workers as the problem has.
Plan bench_plan(const Problem&);
TaskId first_task(const Plan&, TaskKind, ValueId makes);

// One worker of a GPU with the memory of worker 0 of a plan.
class Bench {
 public:
  // Keeps references to the GPU and the plan. `narrow`: results of the library keep its dtype.
  Bench(Gpu&, std::uint32_t place, const Plan&, bool narrow);

  // Everything that comes before `task` in a plan of one worker, so that its inputs are there.
  void come_to(TaskId task);
  // Ordinary numbers everywhere, for tasks that only pass over memory.
  void fill_all();
  void perform(TaskId);
  void perform_library(TaskId);  // that part of it alone
  cudaStream_t stream() const { return gpu_.stream(place_, Lane::Compute); }
  const Lowering& lowering() const { return lowering_; }

 private:
  const std::vector<DeviceCall>& calls(TaskId);
  const std::int32_t* positions(Region);

  Gpu& gpu_;
  const std::uint32_t place_;
  const Plan& plan_;
  const Lowering lowering_;
  const MemoryPlan memory_;
  DeviceMemory block_, scratch_, workspace_;
  std::vector<DeviceMemory> positions_;
  std::unique_ptr<Library::Caller> library_;
  std::map<std::uint32_t, std::vector<DeviceCall>> calls_;
};

// Seconds of each of `streams` for one call of `work(i)`, which puts something on stream i, while
// all do the same. The streams begin together.
std::vector<double> seconds_together(const std::vector<cudaStream_t>& streams,
                                     const std::function<void(std::size_t)>& work);
// How many times as long that takes once the GPU has worked for some time without a pause.
double load_slowdown(const std::vector<cudaStream_t>& streams,
                     const std::function<void(std::size_t)>& work);

}  // namespace ringsched::cuda
