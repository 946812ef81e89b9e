// Predictions against measurements: those that others published (validation/), or a user's own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ringsched/simulator/measurements.hpp"

namespace ringsched {

struct ValidatedResult {
  std::string schedule;
  Overlap overlap = Overlap::Prefetch;
  Problem problem;
  double published = 0;     // in the unit of the group's quantity
  double predicted = 0;     // likewise
  double error = 0;         // predicted over published, less 1; of an overhead: of the whole time
  double time_ratio = 1;    // predicted time over published time
  bool impossible = false;  // faster than the bytes over the busiest link, so not counted
  // Where the predicted time goes, in ms: the critical path's parts.
  double attending_ms = 0, overhead_ms = 0, communication_ms = 0, contention_ms = 0;
  double host_ms = 0, waiting_ms = 0;
};

// Pairs of results of one problem whose published values differ by more than 3 percent, which is
// what measurements vary by, and how many of them are predicted in the published order.
struct Ranking {
  std::size_t pairs = 0, in_order = 0;
};

struct ValidatedGroup {
  std::string name, by, source, why;
  Measure measure = Measure::Ms;
  std::string machine;
  bool order_only = false;
  std::vector<ValidatedResult> results;
  Ranking ranking() const;
};

// Of the results that count: all but those that are impossible or compared by order only.
struct Errors {
  std::size_t results = 0, impossible = 0;
  double median = 0, mean = 0;  // of absolute errors
  // The result whose time is furthest off as a factor: its error and its time_ratio.
  double worst = 0, worst_ratio = 1;
  std::string worst_group, worst_schedule;
  std::size_t too_fast = 0;  // predicted to take less time than was measured
  Ranking ranking;

  double worst_factor() const { return worst_ratio < 1 ? 1 / worst_ratio : worst_ratio; }
};

struct Validation {
  std::vector<ValidatedGroup> groups;
  std::vector<Excluded> excluded;
  std::vector<std::string> sources() const;  // the groups' `by`, in order of appearance
  Errors errors() const;
  Errors errors_of(const std::string& source) const;
};
Errors errors_of(const ValidatedGroup&);

// Throws Error, with the file and the line, where a schedule does not fit its problem or machine.
Validation validate(const Measurements&);

}  // namespace ringsched
