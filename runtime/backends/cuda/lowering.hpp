// From the tasks of a plan to the calls that a GPU executes: which attends go to the library, and
// the calls of each task with their addresses. Nothing here calls CUDA.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/attend_tile.hpp"
#include "device_calls.hpp"
#include "ringsched/runtime/device.hpp"

namespace ringsched::cuda {

// What tasks need besides their operands, in memory of the device.
struct Surroundings {
  std::byte* scratch = nullptr;  // of the worker
  std::function<const std::int32_t*(Region)> positions;
  MaskView mask;
  std::uint32_t* not_finite = nullptr;  // none: numbers are not checked
};

class Lowering {
 public:
  // Says why the library refuses a shape; empty if it accepts it. Called once for each.
  using Refusal = std::function<std::string(const Shape&)>;

  // Of the tasks of these workers. Keeps a reference to the plan. `all_narrow`, for measurements:
  // treats all results of the library as merged on the worker that makes them.
  Lowering(const Plan&, const std::vector<WorkerId>& mine, const Refusal&, bool all_narrow = false);

  std::vector<DeviceCall> calls(TaskId, const Operands&, const Surroundings&) const;
  std::int64_t scratch_bytes(WorkerId) const;
  bool narrow(TaskId task, std::uint32_t output) const { return narrow_[2 * task.value + output]; }
  // How many attends go to the library, and how many do not, by reason.
  std::int64_t by_library() const { return by_library_; }
  const std::map<std::string, std::int64_t>& by_own() const { return by_own_; }
  std::string summary() const;  // of that, in a line

 private:
  using AddCalls = void (Lowering::*)(std::vector<DeviceCall>&, TaskId, const Operands&,
                                      const Surroundings&) const;
  template <auto Call>  // where it is one that needs no surroundings
  void add(std::vector<DeviceCall>& out, TaskId id, const Operands& operands,
           const Surroundings&) const {
    out.emplace_back((this->*Call)(id, operands));
  }
  void add_forward(std::vector<DeviceCall>&, TaskId, const Operands&, const Surroundings&) const;
  void add_backward(std::vector<DeviceCall>&, TaskId, const Operands&, const Surroundings&) const;
  Merge merge(TaskId, const Operands&) const;
  Add reduce(TaskId, const Operands&) const;
  Prepare prepare(TaskId, const Operands&) const;
  void add_checks(std::vector<DeviceCall>&, TaskId, const Operands&, std::uint32_t* flag) const;
  std::int64_t rows(RegionId) const;
  Side side(TaskId, std::size_t input, const std::byte*) const;

  const Plan& plan_;
  std::vector<bool> library_;  // by task
  std::vector<bool> narrow_;
  std::int64_t by_library_ = 0;
  std::map<std::string, std::int64_t> by_own_;
};

}  // namespace ringsched::cuda
