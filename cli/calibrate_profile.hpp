// What calibrate has measured, as a machine profile.
#pragma once

#include <string>

#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/cuda_calibrate.hpp"

namespace ringsched {

// Between processes: each is a node of the profile, with the cores that it has for itself.
struct MeasuredLinks {
  std::uint32_t processes = 1;
  std::string transport = {};
  double latency_us = 0, gb_per_s = 0;
  std::vector<MeasuredMessage> messages = {};
};

std::string profile(const CpuFigures&, const MeasuredLinks&, const std::string& name);
std::string profile(const CudaFigures&, const std::string& name);

// As short as it may be without losing more than measuring loses anyway.
std::string figure(double);
// "3 of 59 times"
std::string how_many_disturbed(const CpuFigures&);

}  // namespace ringsched
