// What `ringsched run` needs, for `ringsched doctor`.
#include <fmt/format.h>

#include <cstdlib>

#include "doctor.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/installed.hpp"
#include "ringsched/scheduler/error.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

DoctorPart attention_kernels() {
  const char* const cap = std::getenv("RINGSCHED_CPU");
  try {
    return {"attention",
            fmt::format("{} for fp32, {} for bf16, {} for fp16{}", cpu_instructions(Dtype::Fp32),
                        cpu_instructions(Dtype::Bf16), cpu_instructions(Dtype::Fp16),
                        cap ? fmt::format(" (RINGSCHED_CPU is {})", escaped(cap)) : ""),
            ""};
  } catch (const Error& wrong) {
    return {"attention", "", fmt::format("{}; run and calibrate are not available", wrong.what())};
  }
}

DoctorPart mpi() {
  const Installed transport = installed_mpi();
  if (!transport.missing.empty())
    return {"MPI", "", transport.missing + "; --transport mpi is not available; use tcp"};
  const std::string mpirun = answer_of("command -v mpirun 2>/dev/null");
  if (mpirun.empty())
    return {"MPI", transport.found, "no mpirun in PATH; start processes with srun or torchrun"};
  return {"MPI", fmt::format("{}, launcher {}", transport.found, mpirun), ""};
}

DoctorPart part(const char* name, const Installed& what, const char* cost) {
  return {name, what.found, what.missing.empty() ? "" : what.missing + "; " + cost};
}

}  // namespace

std::vector<DoctorPart> runtime_parts() {
  return {
      attention_kernels(),
      mpi(),
      part("GPU", installed_gpus(), "--backend cuda is not available"),
      part("CUDA", installed_cuda(),
           "--backend cuda is not available; build with CUDA 13 and cuDNN (docs/gpu.md)"),
      part("cuDNN", installed_cudnn(), "--backend cuda takes a kernel of its own, which is slow"),
      part("NCCL", installed_nccl(), "--transport nccl is not available")};
}

}  // namespace ringsched
