// Predictions against published measurements of schedules (validation/published.toml).
#pragma once

#include <cstddef>
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

// Pairs of results whose published values differ by more than 3 percent, which is what measurements
// vary by, and how many of them are predicted in the published order.
struct Ranking {
  std::size_t pairs = 0, in_order = 0;
};

struct ValidatedGroup {
  std::string name, source, quantity, machine, why;
  // The machine has no figures for such kernels, and borrows those of others: only the order of the
  // results is compared.
  bool order_only = false;
  std::vector<ValidatedResult> results;
  Ranking ranking() const;
};

struct Excluded {
  std::string what, reason;
};

struct Validation {
  std::vector<ValidatedGroup> groups;
  std::vector<Excluded> excluded;
  std::size_t results() const;  // those that count
  std::size_t impossible() const;
  double average_error() const;  // of absolute errors
  double worst_error() const;
};

Validation validate();

}  // namespace ringsched
