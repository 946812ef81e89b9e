// A measured run as text and JSON, beside its prediction where there is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "prediction.hpp"
#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

struct Measurement {
  const ProvedPlan& proved;
  std::string where;                    // "2 cores, amx; 8 workers as threads of one process"
  std::vector<Picoseconds> makespans;   // of each run, in order
  Timeline timeline;                    // of the one in the middle, or the fastest
  RunTimes times;                       // its accounts
  Bytes memory;                         // on the fullest worker
  std::vector<CheckedResults> checked;  // empty: not asked for
  const Prediction* prediction = nullptr;
  std::string kernels = {};  // "36 attends by cuDNN"; empty: there is but one kind
  bool in_turns = false;     // workers take turns on the cores
  Launch launch{};
  std::string transport{};
  std::chrono::nanoseconds clock_error = {};  // between processes; 0: they share a clock
  double clock_drift = 0;                     // that was taken out, per second
  bool fastest = false;
  std::uint32_t sharing = 1;  // processes on this machine, whose workers share its cores
  double stolen = 0;          // share of the processors' time that others on the host had meanwhile

  bool holds() const;
};

std::string measurement_text(const Measurement&);
std::string measurement_json(const Measurement&);

}  // namespace ringsched
