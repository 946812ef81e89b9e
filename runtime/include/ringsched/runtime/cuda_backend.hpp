// Workers on NVIDIA GPUs. The code is in a module, libringsched_cuda.so, loaded on request; this is
// its interface.
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
  bool check_finite = false;  // every result must be finite, or the run has failed
  bool graph = false;         // capture tasks once; each run launches the graph
  bool shared_clock = false;  // count times from when the run should begin, not from when it did
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

// What the module exports as "ringsched_make_cuda_backend". Keeps references to plan and control.
// Throws Error for what no kernel takes, and RunFailed if there is no GPU, the driver is too old,
// or memory is too small.
using MakeCudaBackend = CudaBackend* (*)(const Plan&, const std::vector<WorkerId>& mine, Control&,
                                         const CudaOptions&);

// The multiprocessors on which each of this many workers' kernels ran, when all share the first
// GPU; and, last, those of messages, if they have a partition of their own. Exported as
// "ringsched_probe_cuda"; throws RunFailed.
using ProbeCuda = void (*)(std::uint32_t workers, std::vector<std::vector<std::uint32_t>>& seen);

}  // namespace ringsched
