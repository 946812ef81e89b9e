#include "sweep_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/viz/records.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct Column {
  const char* name;
  std::string SweepRow::*field;
  bool asked;   // it is part of the question
  bool number;  // in JSON
};
constexpr std::array<Column, 32> kColumns = {{
    {"machine", &SweepRow::machine, true, false},
    {"workers", &SweepRow::workers, true, true},
    {"tokens", &SweepRow::tokens, true, true},
    {"heads", &SweepRow::heads, true, true},
    {"kv_heads", &SweepRow::kv_heads, true, true},
    {"head_dim", &SweepRow::head_dim, true, true},
    {"dtype", &SweepRow::dtype, true, false},
    {"mask", &SweepRow::mask, true, false},
    {"pass", &SweepRow::pass, true, false},
    {"new_tokens", &SweepRow::new_tokens, true, true},
    {"conditions", &SweepRow::conditions, true, false},
    {"schedule", &SweepRow::schedule, true, false},
    {"overlap", &SweepRow::overlap, true, false},
    {"exchanges", &SweepRow::exchanges, true, false},
    {"makespan_us", &SweepRow::makespan_us, false, true},
    {"interval_low_us", &SweepRow::interval_low_us, false, true},
    {"interval_high_us", &SweepRow::interval_high_us, false, true},
    {"idle_fraction", &SweepRow::idle_fraction, false, true},
    {"overlap_fraction", &SweepRow::overlap_fraction, false, true},
    {"exposed_communication_us", &SweepRow::exposed_communication_us, false, true},
    {"attending_us", &SweepRow::attending_us, false, true},
    {"overhead_us", &SweepRow::overhead_us, false, true},
    {"waiting_us", &SweepRow::waiting_us, false, true},
    {"waiting_for_host_us", &SweepRow::waiting_for_host_us, false, true},
    {"out_of_work_us", &SweepRow::out_of_work_us, false, true},
    {"bound_us", &SweepRow::bound_us, false, true},
    {"speedup", &SweepRow::speedup, false, true},
    {"peak_bytes", &SweepRow::peak_bytes, false, true},
    {"fits", &SweepRow::fits, false, false},
    {"extrapolated", &SweepRow::extrapolated, false, false},
    {"refused", &SweepRow::refused, false, false},
    {"unit", &SweepRow::unit_name, false, false},
}};
constexpr std::size_t kOfProblem = 11;  // the columns before schedule

}  // namespace

double cell_number(const std::string& text) {
  double x = std::numeric_limits<double>::infinity();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size())
    return std::numeric_limits<double>::infinity();
  return x;
}

std::string SweepRow::key() const {
  std::string out;
  for (const Column& c : kColumns)
    if (c.asked) out += this->*c.field + '\n';
  return out;
}

std::string SweepRow::problem() const {
  std::string out;
  for (std::size_t i = 0; i < kOfProblem; ++i) out += this->*kColumns[i].field + '\n';
  return out;
}

double SweepRow::makespan() const { return cell_number(makespan_us); }

std::string sweep_csv_header() {
  std::string out;
  for (const Column& c : kColumns) {
    out += c.name;
    out += ',';
  }
  out.back() = '\n';
  return out;
}

std::string to_csv(const SweepRow& row) {
  std::string out;
  for (const Column& c : kColumns) out += csv_cell(row.*c.field) + ',';
  out.back() = '\n';
  return out;
}

std::vector<SweepRow> read_sweep_csv(const std::string& text, const std::string& name) {
  std::vector<SweepRow> rows;
  const std::string header = sweep_csv_header();
  if (text.empty()) return rows;
  if (!text.starts_with(header))
    fail("{} was not written by this version of ringsched sweep; use another --output", name);
  std::size_t at = header.size();
  for (std::size_t line = 2; at < text.size(); ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // cut off
    const std::vector<std::string> found = csv_cells(std::string_view(text).substr(at, end - at));
    if (found.size() != kColumns.size())
      fail("{}:{}: expected {} columns, found {}", name, line, kColumns.size(), found.size());
    SweepRow row;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const Column& column = kColumns[c];
      const bool absent = !column.asked && found[c].empty();
      if (column.field == &SweepRow::makespan_us && !absent && !(cell_number(found[c]) > 0))
        fail("{}:{}: makespan_us is '{}', expected a positive number", name, line,
             printable(found[c], 40));
      if (column.number && !absent && !std::isfinite(cell_number(found[c])))
        fail("{}:{}: {} is '{}', expected a number", name, line, column.name,
             printable(found[c], 40));
      row.*column.field = found[c];
    }
    if (row.refused.empty() && row.makespan_us.empty())
      fail("{}:{}: makespan_us and refused are both empty", name, line);
    rows.push_back(row);
    at = end + 1;
  }
  return rows;
}

bool same_results(const SweepRow& a, const SweepRow& b) {
  return std::ranges::all_of(kColumns, [&](const Column& c) {
    const bool of_draws =
        c.field == &SweepRow::interval_low_us || c.field == &SweepRow::interval_high_us;
    return c.asked || of_draws || a.*c.field == b.*c.field;
  });
}

std::string to_json(const std::vector<SweepRow>& rows) {
  std::string out;
  const std::vector<std::optional<double>> wins = best_wins(rows);
  for (const SweepRow& row : rows) {
    out += out.empty() ? "\n  {" : ",\n  {";
    const char* before = "";
    for (const Column& c : kColumns) {
      const std::string& text = row.*c.field;
      out += fmt::format("{}\"{}\": {}", before, c.name,
                         text.empty() ? "null"
                         : c.number   ? text
                                      : fmt::format("\"{}\"", escaped(text)));
      before = ", ";
    }
    const std::optional<double> share = wins[static_cast<std::size_t>(&row - rows.data())];
    out += fmt::format(", \"slower_in\": {}}}", share ? fmt::format("{:.3f}", *share) : "null");
  }
  return fmt::format("[{}\n]\n", out);
}

}  // namespace ringsched
