// The questions of a sweep, cell by cell, and the answer to each.
#pragma once

#include <string>
#include <vector>

#include "machine_flags.hpp"
#include "problem_flags.hpp"
#include "sweep_rows.hpp"

namespace ringsched {

// The values of its flags; lists have commas.
struct SweepQuestion {
  std::string schedules = "all", workers, tokens, heads = "32", machines = "ideal",
              overlaps = "prefetch";
  ProblemFlags rest;
  MachineFlags conditions;

  void add_to(CLI::App&);
};

struct SweepCell {
  ProblemFlags flags;
  Machine machine;
  SweepRow row;  // what is asked
};

// Throws Error for values that make no sense in any cell.
std::vector<SweepCell> cells_of(const SweepQuestion&);
// The row with its answer, or with the reason for having none.
SweepRow answer(const SweepCell&, const SweepQuestion&);

}  // namespace ringsched
