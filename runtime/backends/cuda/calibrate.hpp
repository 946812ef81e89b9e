#pragma once

#include "ringsched/runtime/cuda_calibrate.hpp"

namespace ringsched::cuda {

CudaFigures measure(const CudaCalibration&,
                    const std::function<void(const std::string&, double)>& progress);

// See ProbeCuda; at the end those of all messages, if they have a partition of their own.
std::vector<std::vector<std::uint32_t>> probe(std::uint32_t workers);

}  // namespace ringsched::cuda
