// Predictions against published measurements of schedules (validation/published.toml).
#pragma once

#include <string>
#include <vector>

namespace ringsched {

struct ValidatedResult {
  std::string schedule, overlap;
  double published = 0;
  double predicted = 0;
  bool impossible = false;  // faster than the bytes over the busiest link, so not counted
  // Where the predicted time goes, in ms: the critical path's parts.
  double attending_ms = 0, overhead_ms = 0, communication_ms = 0, contention_ms = 0, waiting_ms = 0;

  double error = 0;  // predicted over published, less 1; of an overhead: of the whole time
};

struct ValidatedGroup {
  std::string name, source, quantity, machine, why;
  std::vector<ValidatedResult> results;
  // Kendall's tau of the two rankings: 1 where all pairs stand in the same order.
  double tau() const;
};

struct Excluded {
  std::string what, reason;
};

struct Validation {
  std::vector<ValidatedGroup> groups;
  std::vector<Excluded> excluded;
  std::size_t results() const;   // those that count
  double average_error() const;  // of absolute errors
  double worst_error() const;
};

Validation validate();

}  // namespace ringsched
