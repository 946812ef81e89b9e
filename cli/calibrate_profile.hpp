// The results of calibrate, as a machine.
#pragma once

#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/cuda_calibrate.hpp"

namespace ringsched {

// Between processes: each is a node of the profile, with its own cores.
struct MeasuredLinks {
  std::uint32_t processes = 1;
  std::string transport = {};
  double latency_us = 0, gb_per_s = 0;
  std::vector<MeasuredMessage> messages = {};
  std::size_t points = 0, disturbed = 0;  // as in CpuFigures
};

// What to call it, and how it came about.
struct ProfileNotes {
  std::string name, made_by = {};
  std::vector<std::string> comments = {};
};

// The profile as TOML. Throws Error if the figures do not make a machine.
std::string profile(const CpuFigures&, const MeasuredLinks&, ProfileNotes);
std::string profile(const CudaFigures&, ProfileNotes);

// As short as possible without losing more than the measurement's own error.
std::string figure(double);
// "3 of 59 points did not settle"; empty: all did
std::string unsettled(const CpuFigures&, const MeasuredLinks&);

}  // namespace ringsched
