// Whether a run computed the right numbers: its results against attention in double precision, pair
// by pair as the mask says, from inputs made anew.
//
// Each number has a bound that follows from the dtype. Sums are made in fp32, whose rounding counts
// in proportion to the scores; and probabilities of 16-bit problems may have been rounded to the
// dtype before they were multiplied. A result is within bounds if every number looked at is.
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
  std::int64_t rows = 0;   // looked at, of one head
  std::int64_t there = 0;  // that could be
  double largest_error = 0;
  double largest_value = 0;  // of the reference
  double of_bound = 0;       // the largest error in parts of its bound; at most 1 if all is well
  std::string worst;         // where that is

  double relative_error() const { return largest_value > 0 ? largest_error / largest_value : 0; }
  bool holds() const { return of_bound <= 1; }  // false for NaN
  void add(const CheckedResults&);              // of another process
};

// What the rows of the forward pass came to, of all tokens, [head][token]: of the run itself. Only
// key gradients need it, and only of problems too large to compute it anew.
struct ForwardRows {
  std::vector<double> lse, delta;
  std::vector<double> size;  // of the terms of delta, added up without their signs
};

struct CheckOptions {
  std::int64_t rows = 0;  // of each kind, on this process; 0: all if the problem is small, else 64
  std::uint64_t seed = 1;
};

// Whether all rows are looked at, if nothing else is asked for.
bool is_small(const Problem&);
bool needs_forward_rows(const Problem&, const CheckOptions&);
// The part of them that this process knows; others are 0.
ForwardRows forward_rows(const Plan&, const Inputs&, const std::vector<Result>&);

// Calls `between` from row to row.
std::vector<CheckedResults> check_results(
    const Plan&, const Inputs&, const std::vector<Result>&, const CheckOptions&, const ForwardRows&,
    const std::function<void()>& between = [] {});

}  // namespace ringsched
