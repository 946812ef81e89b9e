// The results of calibrate, as text for people.
#pragma once

#include <string>

#include "calibrate_profile.hpp"

namespace ringsched {

std::string summary(const CpuFigures&, const MeasuredLinks&);
std::string summary(const CudaFigures&);

}  // namespace ringsched
