// What a run computes with: the cores of this machine, or its GPUs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/cuda_backend.hpp"
#include "ringsched/runtime/session.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

class RunBackend {
 public:
  // For these workers of the plan. Keeps references to everything.
  RunBackend(const BackendOptions&, const JoinOptions&, const Launch&, const Plan&,
             const std::vector<WorkerId>& mine, Control&, World&, CudaOptions);

  std::unique_ptr<Device> device(WorkerId, std::span<const TaskId>);
  std::unique_ptr<Transport> transport(std::chrono::nanoseconds patience);
  // Whether tasks wait for a core: there are more workers than cores.
  bool in_turns() const { return in_turns_; }
  std::string where() const;
  // For timelines: whether times are measured, or come from a GPU that the tests emulate; and on
  // what hardware.
  TimelineSource source() const;
  std::string machine() const;
  std::string kernels() const { return cuda_ ? cuda_->kernels() : ""; }

 private:
  const JoinOptions& join_;
  const Launch& launch_;
  const Plan& plan_;
  Control& control_;
  World& world_;
  const bool finite_;
  std::uint32_t place_ = 0;  // of this process on its machine
  std::shared_ptr<CoreGate> gate_;
  bool in_turns_ = false;
  std::unique_ptr<CudaBackend> cuda_;  // none: the CPU
};

}  // namespace ringsched
