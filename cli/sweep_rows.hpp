// The rows of a sweep: what was asked, what came of it, and both as CSV and JSON.
#pragma once

#include <string>
#include <vector>

#include "ringsched/scheduler/units.hpp"

namespace ringsched {

struct SweepRow {
  // What was asked; rows that agree in this are the same row.
  std::string machine, schedule, workers, tokens, heads, kv_heads, head_dim, dtype, mask, pass,
      overlap, conditions;
  // What came of it; or why nothing did.
  std::string makespan_us, idle_fraction, overlap_fraction, exposed_communication_us, speedup,
      peak_bytes, refused;

  std::string key() const;      // of the row
  std::string problem() const;  // rows that compete with each other
  bool holds() const { return refused.empty(); }
  double makespan() const;
};

std::string sweep_csv_header();
std::string to_csv(const SweepRow&);
std::string to_json(const std::vector<SweepRow>&);
// The whole rows of a CSV text; a last line that was cut off is left out. Throws Error, beginning
// with `name`, where it is not the CSV of a sweep.
std::vector<SweepRow> read_sweep_csv(const std::string& text, const std::string& name);
// Ranked within each problem, the winner marked.
std::string ranked_table(const std::vector<SweepRow>&);

}  // namespace ringsched
