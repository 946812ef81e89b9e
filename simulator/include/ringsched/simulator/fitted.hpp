// Fits a machine to one measured time: it scales the machine's least certain figure.
#pragma once

#include <string>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/simulator/study.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

struct Fit {
  Machine machine;             // with that figure scaled
  std::string figure;          // "attention kernels", "links", ...
  double factor = 1;           // the new time of these over the old
  double spread = 0;           // how uncertain the figure was, as a share
  double left = 0;             // how uncertain it is now, if the change was plausible
  Picoseconds predicted;       // before the fit
  std::string too_weak;        // figures that move the makespan more, but not enough; may be empty
  double sigmas() const;       // how many spreads the factor, or its inverse, is above 1
  bool within_spread() const;  // at most one
};

// The setup's machine with one figure scaled so that the plan takes `measured`: the one that needs
// the fewest of its spreads for that. Throws Error if none explains it.
Fit fit(const Plan&, const Setup&, Picoseconds measured, const StudyOptions& = {});

}  // namespace ringsched
