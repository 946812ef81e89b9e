// Ranks the rows of a sweep, and prints the ranking.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ringsched/simulator/uncertainty.hpp"
#include "sweep_rows.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

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
  return duration({static_cast<std::int64_t>(cell_number(microseconds) * 1e6 + 0.5)}, unit);
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

// The schedules with prices beyond what was measured.
std::string extrapolated_in(const std::vector<const SweepRow*>& rows) {
  std::vector<std::string> schedules;
  std::size_t holding = 0, some = 0;
  for (const SweepRow* row : rows) {
    holding += row->holds();
    if (!row->extrapolated.empty()) {
      ++some;
      if (std::ranges::find(schedules, row->schedule) == schedules.end())
        schedules.push_back(row->schedule);
    }
  }
  if (schedules.empty()) return {};
  const std::string last = schedules.back();
  schedules.pop_back();
  const std::string names = some == holding ? "all schedules"
                            : schedules.empty()
                                ? last
                                : fmt::format("{} and {}", fmt::join(schedules, ", "), last);
  return on_terminal_lines(
             fmt::format("   Some task times of {} are extrapolated beyond measurements; "
                         "'ringsched simulate' lists them.",
                         names),
             3) +
         "\n";
}

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

std::string ranked_table(const std::vector<SweepRow>& all) {
  std::string out;
  for (const std::vector<const SweepRow*>& rows : ranked(all)) {
    const SweepRow& first = *rows.front();
    const bool one_overlap = std::ranges::all_of(
        rows, [&](const SweepRow* row) { return row->overlap == first.overlap; });
    const std::string title = fmt::format(
        "{}, {}, {}{}{}", first.machine,
        counted(static_cast<std::int64_t>(cell_number(first.workers)), "worker"),
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
      const std::string memory =
          human(Bytes{static_cast<std::int64_t>(cell_number(row->peak_bytes))});
      add({row == rows.front() && row->fits != "no" ? "*" : "", row->schedule, row->overlap,
           row->exchanges, time_of(row->makespan_us, row->unit()), interval_of(twin),
           fmt::format("{:.2f}x", row->makespan() / first.makespan()),
           row == rows.front()     ? ""
           : &twin == rows.front() ? "same time"
                                   : how_often_best_wins(first, twin),
           fmt::format("{:.2f}x", cell_number(row->speedup)),
           fmt::format("{:.1f}%", 100 * cell_number(row->idle_fraction)),
           fmt::format("{:.1f}%", 100 * cell_number(row->overlap_fraction)),
           row->fits == "no" ? memory + " does not fit" : memory});
    }
    if (lines.size() > 1) out += table(lines, 2);
    if (first.fits != "no" && std::ranges::any_of(rows, [](const SweepRow* row) {
          return !row->interval_low_us.empty() && row->possible.empty();
        }))
      out += "   (\"slower in\" is unknown for rows of an earlier sweep)\n";
    if (intervals && std::ranges::any_of(rows, [](const SweepRow* row) {
          return row->holds() && row->interval_low_us.empty();
        }))
      out += "   (\"-\": a plan of more than 200,000 tasks has no interval)\n";
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
