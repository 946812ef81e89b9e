// Measurements of schedules, each with its problem and machine, read from TOML
// (docs/validation.md). The published ones are part of the library (validation/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/problem.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

// What the source gives for each schedule.
enum class Measure : std::uint8_t {
  IterationsPerS,
  Ms,
  Speedup,          // over one device that computes the same problem alone
  SpeedupOver,      // over another schedule for the same problem: MeasuredGroup::over
  TflopsPerDevice,  // 2 products of 2 d for each visible pair and head forward, 5 backward
  Overhead,         // of communication: makespan over that with free communication, less 1
};
std::string_view to_text(Measure);  // as in the file
std::string_view unit_of(Measure);  // for people

struct MeasuredResult {
  std::string schedule;  // as it was written
  Overlap overlap = Overlap::Prefetch;
  Problem problem;
  double published = 0;
  double noise = 0;        // of the measurement itself: its standard deviation, as a share
  std::uint32_t line = 0;  // of the file
};

struct MeasuredGroup {
  std::string file, name, by, source, why;
  Measure measure = Measure::Ms;
  Machine machine;
  // The published times are of more than attention, or the machine has no figures for such kernels:
  // only the order of the results is compared.
  bool order_only = false;
  // The benchmark repeats the call without waiting for the device, so the host runs ahead into the
  // next call.
  bool loop = false;
  std::string over;  // for Measure::SpeedupOver: the schedule
  std::vector<MeasuredResult> results;
};

struct Excluded {
  std::string what, reason;
};

struct Measurements {
  std::vector<MeasuredGroup> groups;
  std::vector<Excluded> excluded;
};

// Throws Error, beginning with `name` and the line, for anything that is not a valid file.
Measurements read_measurements(std::string_view toml, std::string_view name);

// What others published.
Measurements published_measurements();

}  // namespace ringsched
