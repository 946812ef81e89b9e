// The rows of a sweep: the questions, the answers, and both as CSV and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringsched/scheduler/units.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

struct SweepRow {
  // The question; rows with the same question are the same row.
  std::string machine, schedule, workers, tokens, heads, kv_heads, head_dim, dtype, mask, pass,
      new_tokens, overlap, exchanges, conditions;
  // The answer, or the reason for having no answer.
  std::string makespan_us, idle_fraction, overlap_fraction, exposed_communication_us, speedup,
      peak_bytes, fits, refused;  // fits: "yes", "no", or empty if the machine does not say
  // Where the time of a worker goes, on average, and the lower bound.
  std::string attending_us, overhead_us, waiting_us, waiting_for_host_us, out_of_work_us, bound_us;
  std::string extrapolated;  // what is priced by figures of something else; "" if nothing is
  // Ends of the interval that contains the makespan in 80% of cases; "" if there is none.
  std::string interval_low_us, interval_high_us;
  std::vector<Picoseconds> possible;  // makespans by draw of the machine's figures; not a column
  std::string unit_name = "us";       // of the times: or "blocks"

  std::string key() const;      // of the row
  std::string problem() const;  // rows that compete with each other
  TimeUnit unit() const { return unit_name == "blocks" ? TimeUnit::Blocks : TimeUnit::Seconds; }
  bool holds() const { return refused.empty(); }
  double makespan() const;
};

// By row: in what share of the draws of the machine's figures the fastest of its problem is faster.
// Nothing for that one itself, and where draws are missing.
std::vector<std::optional<double>> best_wins(const std::vector<SweepRow>&);

// Two schedules may make the same plan, such as `ulysses` and `usp` with as many heads as workers.
bool same_results(const SweepRow&, const SweepRow&);
double cell_number(const std::string& text);  // infinity if it is not a number

std::string sweep_csv_header();
std::string to_csv(const SweepRow&);
std::string to_json(const std::vector<SweepRow>&);
// The rows of a CSV text, without a last line that was cut off. Throws Error, starting with `name`,
// if it is not the CSV of a sweep.
std::vector<SweepRow> read_sweep_csv(const std::string& text, const std::string& name);
// Ranked within each problem, the winner marked.
std::string ranked_table(const std::vector<SweepRow>&);

}  // namespace ringsched
