// Measures CPUs, in one process or several, and writes the profile: all of it at the end, or what
// there is so far after a signal.
#pragma once

#include <chrono>
#include <string>

#include "calibrate_profile.hpp"
#include "launch_flags.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

struct CpuCalibration {
  CalibrationOptions options;
  ProfileNotes notes;
  std::string output;
  std::chrono::seconds deadline;  // for other processes
};

void calibrate_cpu(const CpuCalibration&, const JoinFlags&);

}  // namespace ringsched
