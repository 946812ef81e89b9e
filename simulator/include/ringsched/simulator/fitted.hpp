// One measured time of a plan says how far off one figure of its machine is: the one that leaves
// the prediction least sure.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/simulator/study.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

struct Fit {
  Machine machine;             // with that figure scaled
  std::string figure;          // "attention kernels", "links", ...
  double factor = 1;           // what those take now, over what they took
  double spread = 0;           // how unsure the figure was, as a share
  Picoseconds predicted;       // before
  std::string too_weak;        // figures that are less sure but cannot explain it; may be empty
  double sigmas() const;       // how many spreads the factor is away from 1
  bool within_spread() const;  // at most one
};

// The setup's machine with one figure scaled so that the plan takes `measured`. Figures are tried
// by how much their spreads move the makespan, most first. Throws Error where none explains it.
Fit fit(const Plan&, const Setup&, Picoseconds measured, const StudyOptions& = {});

}  // namespace ringsched
