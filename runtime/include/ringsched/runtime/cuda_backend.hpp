// Workers on NVIDIA GPUs. All of it is in a module, libringsched_cuda.so, that is loaded when it is
// asked for; this is what it is asked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/inputs.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

struct CudaOptions {
  bool check_finite = false;  // what a task makes must be finite, or the run has failed
  bool graph = false;         // tasks are captured once, and each run launches the graph
  bool shared_clock = false;  // times count from when the run was to begin, not from when it did
  int gpu = -1;               // all workers on this one, counted round; -1: spread over all
  std::uint64_t seed = 1;     // inputs are made on the GPU
  InputKind inputs = InputKind::Normal;
};

class CudaBackend {
 public:
  virtual ~CudaBackend() = default;
  virtual std::unique_ptr<Device> device(WorkerId) = 0;
  // Between workers of this process.
  virtual std::unique_ptr<Transport> transport() = 0;
  // "NVIDIA H200, driver for CUDA 13.0, cuDNN 9.19.0; 8 workers on each, with 16 of its 132
  // multiprocessors of their own"
  virtual std::string where() const = 0;
  // "36 attends by cuDNN"
  virtual std::string kernels() const = 0;
};

// What the module has under the name "ringsched_make_cuda_backend". Plan and control are kept by
// reference. Throws Error for what no kernel takes, and RunFailed where there is no GPU, the driver
// is too old, or memory is too little.
using MakeCudaBackend = CudaBackend* (*)(const Plan&, const std::vector<WorkerId>& mine, Control&,
                                         const CudaOptions&);

// The multiprocessors on which kernels of each of so many workers were seen to run, when all share
// the first GPU. Under the name "ringsched_probe_cuda"; throws RunFailed.
using ProbeCuda = void (*)(std::uint32_t workers, std::vector<std::vector<std::uint32_t>>& seen);

}  // namespace ringsched
