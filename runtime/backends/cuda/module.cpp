// The names that libringsched_cuda.so exports.
#include "backends/cuda/calibrate.hpp"
#include "backends/cuda/run.hpp"

extern "C" __attribute__((visibility("default"))) ringsched::CudaBackend*
ringsched_make_cuda_backend(const ringsched::Plan& plan,
                            const std::vector<ringsched::WorkerId>& mine,
                            ringsched::Control& control, const ringsched::CudaOptions& options) {
  return std::make_unique<ringsched::cuda::GpuRun>(plan, mine, control, options).release();
}

extern "C" __attribute__((visibility("default"))) void ringsched_measure_cuda(
    const ringsched::CudaCalibration& options,
    const std::function<void(const std::string&, double)>& progress,
    ringsched::CudaFigures& figures) {
  figures = ringsched::cuda::measure(options, progress);
}

extern "C" __attribute__((visibility("default"))) void ringsched_probe_cuda(
    std::uint32_t workers, std::vector<std::vector<std::uint32_t>>& seen) {
  seen = ringsched::cuda::probe(workers);
}

// For tests: cuDNN's answers about shapes on a GPU that is only described to it.
extern "C" __attribute__((visibility("default"))) void ringsched_ask_cudnn(
    const std::vector<ringsched::cuda::Shape>& shapes, const std::string& description,
    int capability, bool builds, ringsched::cuda::LibraryAnswers& answers) {
  ringsched::cuda::Library library(description, capability, builds);
  for (const ringsched::cuda::Shape& s : shapes) answers.refusals.push_back(library.refusal(s));
  answers.workspace_bytes = library.workspace_bytes();
}
