// What libringsched_cuda.so is asked for by name.
#include "backends/cuda/run.hpp"

extern "C" __attribute__((visibility("default"))) ringsched::CudaBackend*
ringsched_make_cuda_backend(const ringsched::Plan& plan,
                            const std::vector<ringsched::WorkerId>& mine,
                            ringsched::Control& control, const ringsched::CudaOptions& options) {
  return std::make_unique<ringsched::cuda::Run>(plan, mine, control, options).release();
}
