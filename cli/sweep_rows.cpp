#include "sweep_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/simulator/uncertainty.hpp"
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

double number(const std::string& text) {
  double x = std::numeric_limits<double>::infinity();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size())
    return std::numeric_limits<double>::infinity();
  return x;
}

Problem problem_of(const SweepRow& r) {
  const auto count = [](const std::string& text) { return parse_count(text, "a row"); };
  Problem p;
  p.workers = static_cast<std::uint32_t>(count(r.workers));
  p.tokens = {count(r.tokens)};
  p.heads = static_cast<std::uint32_t>(count(r.heads));
  p.kv_heads = static_cast<std::uint32_t>(count(r.kv_heads));
  p.head_dim = static_cast<std::uint32_t>(count(r.head_dim));
  p.dtype = parse_dtype(r.dtype);
  p.mask = parse_mask(r.mask);
  p.pass = parse_pass(r.pass);
  p.new_tokens = {count(r.new_tokens)};
  return p;
}

}  // namespace

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

double SweepRow::makespan() const { return number(makespan_us); }

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
      if (column.field == &SweepRow::makespan_us && !absent && !(number(found[c]) > 0))
        fail("{}:{}: makespan_us is '{}', expected a positive number", name, line,
             printable(found[c], 40));
      if (column.number && !absent && !std::isfinite(number(found[c])))
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

namespace {

// Two schedules may make the same plan, such as `ulysses` and `usp` with as many heads as workers.
bool same_results(const SweepRow& a, const SweepRow& b) {
  return std::ranges::all_of(kColumns, [&](const Column& c) {
    const bool of_draws =
        c.field == &SweepRow::interval_low_us || c.field == &SweepRow::interval_high_us;
    return c.asked || of_draws || a.*c.field == b.*c.field;
  });
}

// A reason for a refusal without the name of its schedule, which stands before it already.
std::string without_name(const std::string& reason, const std::string& schedule) {
  const std::string name = schedule.substr(0, schedule.find(':')) + ": ";
  return reason.starts_with(name) ? reason.substr(name.size()) : reason;
}

// In what share of the draws of the machine's figures the best is faster than another; a "tie" if
// nobody can tell, "-" if one of them has no draws.
std::string how_often_best_wins(const SweepRow& best, const SweepRow& other) {
  if (best.possible.empty() || other.possible.empty()) return "-";
  const double wins = beats(best.possible, other.possible);
  return fmt::format("{:.0f}%{}", 100 * wins, wins <= kTie ? " (tie)" : "");
}

std::string time_of(const std::string& microseconds, TimeUnit unit) {
  return duration({static_cast<std::int64_t>(number(microseconds) * 1e6 + 0.5)}, unit);
}

// "1.2 to 1.4 ms": a unit that both ends share is named once.
std::string interval_of(const SweepRow& row) {
  if (row.interval_low_us.empty()) return "-";
  std::string low = time_of(row.interval_low_us, row.unit());
  const std::string high = time_of(row.interval_high_us, row.unit());
  const auto unit = [](const std::string& time) { return time.substr(time.find(' ') + 1); };
  if (unit(low) == unit(high)) low.resize(low.find(' '));
  return low + " to " + high;
}

}  // namespace

// The schedules with prices beyond what was measured.
std::string extrapolated_in(const std::vector<const SweepRow*>& rows) {
  std::vector<std::string> whose;
  std::size_t holding = 0, some = 0;
  for (const SweepRow* row : rows) {
    holding += row->holds();
    if (!row->extrapolated.empty()) {
      ++some;
      if (std::ranges::find(whose, row->schedule) == whose.end()) whose.push_back(row->schedule);
    }
  }
  if (whose.empty()) return {};
  const std::string last = whose.back();
  whose.pop_back();
  const std::string names = some == holding ? "all schedules"
                            : whose.empty()
                                ? last
                                : fmt::format("{} and {}", fmt::join(whose, ", "), last);
  return on_terminal_lines(fmt::format("   Some task times of {} are extrapolated; "
                                       "'ringsched simulate' lists them.",
                                       names),
                           3) +
         "\n";
}

namespace {

// The rows of each problem, the fastest that fits first.
std::vector<std::vector<const SweepRow*>> ranked(const std::vector<SweepRow>& all) {
  std::vector<std::vector<const SweepRow*>> out;
  std::map<std::string, std::size_t> known;  // by problem, in the order that they came
  for (const SweepRow& row : all) {
    const auto [at, fresh] = known.emplace(row.problem(), out.size());
    if (fresh) out.emplace_back();
    out[at->second].push_back(&row);
  }
  const auto rank = [](const SweepRow& r) { return !r.holds() ? 2 : r.fits == "no" ? 1 : 0; };
  for (auto& rows : out)
    std::ranges::stable_sort(rows, [&](const SweepRow* a, const SweepRow* b) {
      return rank(*a) != rank(*b) ? rank(*a) < rank(*b) : a->makespan() < b->makespan();
    });
  return out;
}

// The first row with the same results. Its draws serve them all; their own would differ by chance.
const SweepRow& twin_of(const SweepRow& row, const std::vector<const SweepRow*>& rows) {
  return **std::ranges::find_if(rows,
                                [&](const SweepRow* other) { return same_results(*other, row); });
}

}  // namespace

std::vector<std::optional<double>> best_wins(const std::vector<SweepRow>& all) {
  std::vector<std::optional<double>> out(all.size());
  for (const auto& rows : ranked(all)) {
    const SweepRow& best = *rows.front();
    for (const SweepRow* row : rows) {
      const SweepRow& twin = twin_of(*row, rows);
      if (&twin == &best || best.fits == "no" || best.possible.empty() || twin.possible.empty())
        continue;
      out[static_cast<std::size_t>(row - all.data())] = beats(best.possible, twin.possible);
    }
  }
  return out;
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

std::string ranked_table(const std::vector<SweepRow>& all) {
  std::string out;
  for (const std::vector<const SweepRow*>& rows : ranked(all)) {
    const SweepRow& first = *rows.front();
    const bool one_overlap = std::ranges::all_of(
        rows, [&](const SweepRow* row) { return row->overlap == first.overlap; });
    const std::string title = fmt::format(
        "{}, {}, {}{}{}", first.machine,
        counted(static_cast<std::int64_t>(number(first.workers)), "worker"),
        described(problem_of(first)), first.conditions.empty() ? "" : ", " + first.conditions,
        one_overlap && first.overlap != "prefetch" ? ", --overlap " + first.overlap : "");
    out += (out.empty() ? "" : "\n") + on_terminal_lines(title, 2) + "\n";
    const bool lowered =
        std::ranges::any_of(rows, [](const SweepRow* row) { return row->exchanges != "native"; });
    const bool drawn = first.fits != "no" && std::ranges::any_of(rows, [](const SweepRow* row) {
                         return !row->possible.empty();
                       });
    const bool intervals = std::ranges::any_of(
        rows, [](const SweepRow* row) { return !row->interval_low_us.empty(); });
    const std::vector<std::pair<std::string, bool>> columns = {{"", true},
                                                               {"schedule", true},
                                                               {"--overlap", !one_overlap},
                                                               {"--exchanges", lowered},
                                                               {"makespan", true},
                                                               {"80% interval", intervals},
                                                               {"vs best", true},
                                                               {"slower in", drawn},
                                                               {"speed-up", true},
                                                               {"idle", true},
                                                               {"hidden", true},
                                                               {"memory", true}};
    std::vector<std::vector<std::string>> lines(1);
    const auto add = [&](std::vector<std::string> cells) {
      std::vector<std::string> shown;
      for (std::size_t i = 0; i < columns.size(); ++i)
        if (columns[i].second) shown.push_back(std::move(cells[i]));
      lines.push_back(std::move(shown));
    };
    for (const auto& [name, shown] : columns)
      if (shown) lines[0].push_back(name);
    std::map<std::string, std::string> refused;  // whom, by the reason
    for (const SweepRow* row : rows) {
      if (!row->holds()) {
        std::string& whom = refused[without_name(row->refused, row->schedule)];
        whom += fmt::format("{}{}{}", whom.empty() ? "" : ", ", row->schedule,
                            one_overlap ? "" : " " + row->overlap);
        continue;
      }
      const SweepRow& twin = twin_of(*row, rows);
      const std::string memory = human(Bytes{static_cast<std::int64_t>(number(row->peak_bytes))});
      add({row == rows.front() && row->fits != "no" ? "*" : "", row->schedule, row->overlap,
           row->exchanges, time_of(row->makespan_us, row->unit()), interval_of(twin),
           fmt::format("{:.2f}x", row->makespan() / first.makespan()),
           row == rows.front()     ? ""
           : &twin == rows.front() ? "same time"
                                   : how_often_best_wins(first, twin),
           fmt::format("{:.2f}x", number(row->speedup)),
           fmt::format("{:.1f}%", 100 * number(row->idle_fraction)),
           fmt::format("{:.1f}%", 100 * number(row->overlap_fraction)),
           row->fits == "no" ? memory + " does not fit" : memory});
    }
    if (lines.size() > 1) out += table(lines, 2);
    if (first.fits != "no" && std::ranges::any_of(rows, [](const SweepRow* row) {
          return !row->interval_low_us.empty() && row->possible.empty();
        }))
      out += "   (\"slower in\" is unknown for rows of an earlier sweep)\n";
    if (std::ranges::any_of(rows, [](const SweepRow* row) {
          return row->holds() && row->schedule.find(":sends=all") != std::string::npos;
        }))
      out +=
          "   sends=all: rings send keys and values to all workers, also to those that need none\n";
    out += extrapolated_in(rows);
    for (const auto& [reason, whom] : refused)
      out += in_lines(fmt::format("   no result for {}: {}", whom, reason), 5) + "\n";
  }
  return out;
}

}  // namespace ringsched
