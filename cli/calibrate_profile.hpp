// What calibrate has measured, as a machine profile.
#pragma once

#include <string>

#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/cuda_calibrate.hpp"

namespace ringsched {

std::string profile(const CpuFigures&, const std::string& name);
std::string profile(const CudaFigures&, const std::string& name);

// As short as it may be without losing more than measuring loses anyway.
std::string figure(double);

}  // namespace ringsched
