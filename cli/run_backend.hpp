// What a run computes with: the cores of this machine, or its GPUs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/cuda_backend.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

struct BackendFlags {
  std::string name = "cpu";
  bool graph = false;

  void add_to(CLI::App&);
  void check() const;  // throws Error
};

class RunBackend {
 public:
  // For these workers of the plan; plan and control are kept by reference.
  RunBackend(const BackendFlags&, const Plan&, const std::vector<WorkerId>& mine, Control&,
             const World&, const CudaOptions&);

  std::unique_ptr<Device> device(WorkerId);
  std::unique_ptr<Transport> transport(World&);
  std::string where(const World&) const;
  std::string kernels() const { return cuda_ ? cuda_->kernels() : ""; }

 private:
  const Plan& plan_;
  Control& control_;
  const bool finite_;
  std::shared_ptr<CoreGate> gate_;
  std::unique_ptr<CudaBackend> cuda_;  // none: the CPU
};

}  // namespace ringsched
