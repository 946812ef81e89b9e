// Whether a run computed the right numbers. It compares results with attention in double precision,
// pair by pair under the mask, from inputs made again.
//
// Each number has a bound that follows from the dtype. Sums are in fp32, whose rounding grows with
// the scores; 16-bit problems may also have rounded probabilities to the dtype before multiplying
// them. A result is within bounds if every checked number is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/inputs.hpp"

namespace ringsched {

// Of one kind of results: outputs, their log-sum-exps, or gradients.
struct CheckedResults {
  std::string name;
  std::int64_t rows = 0;   // checked, of one head
  std::int64_t there = 0;  // that there are
  double largest_error = 0;
  double largest_value = 0;  // of the reference
  double of_bound = 0;  // the largest error as a fraction of its bound; at most 1 if all is well
  std::string worst;    // where that is

  double relative_error() const { return largest_value > 0 ? largest_error / largest_value : 0; }
  bool holds() const { return of_bound <= 1; }  // false for NaN
  void add(const CheckedResults&);              // of another process
};

// The forward rows' log-sum-exps and deltas of the run itself, of all tokens, [head][token]. Only
// key gradients need them, and only of problems too large to compute them again.
struct ForwardRows {
  std::vector<double> lse, delta;
  std::vector<double> size;  // of the terms of delta, added up as absolute values
};

struct CheckOptions {
  std::int64_t rows = 0;  // of each kind, on this process; 0: all if the problem is small, else 64
  std::uint64_t seed = 1;
};

// Whether the check covers all rows by default.
bool is_small(const Problem&);
bool needs_forward_rows(const Problem&, const CheckOptions&);
// The part that this process knows; the rest is 0.
ForwardRows forward_rows(const Plan&, const Inputs&, const std::vector<Result>&);

// Calls `between` after each row.
std::vector<CheckedResults> check_results(
    const Plan&, const Inputs&, const std::vector<Result>&, const CheckOptions&, const ForwardRows&,
    const std::function<void()>& between = [] {});

}  // namespace ringsched
