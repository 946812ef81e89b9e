#include "validation_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

using Rows = std::vector<std::vector<std::string>>;

double median_of(std::vector<double> all) {
  std::ranges::sort(all);
  const std::size_t n = all.size();
  return (all[n / 2] + all[(n - 1) / 2]) / 2;
}

std::string figure(Measure q, double x) {
  if (q == Measure::Overhead) return fmt::format("{:.0f}%", 100 * x);
  if (q == Measure::Speedup || q == Measure::SpeedupOver) return fmt::format("{:.2f}x", x);
  return fmt::format("{:.{}f}", x, x < 20 ? 2 : 1);
}

// Predicted less published, in the published unit.
std::string difference(Measure q, const ValidatedResult& r) {
  const double d = r.predicted - r.published;
  return (d < 0 ? "" : "+") + figure(q, d);
}

// From twice as much on, a ratio is plainer than percents.
std::string error(double e) {
  return e < 1 ? fmt::format("{:+.1f}%", 100 * e) : fmt::format("{:.1f}x", 1 + e);
}
std::string share(double s) {
  return s < 10 ? fmt::format("{:.1f}%", 100 * s)
                : fmt::format("{}%", grouped(std::llround(100 * s)));
}
std::string share_of(std::size_t some, std::size_t all) {
  return all == 0 ? "-" : share(static_cast<double>(some) / static_cast<double>(all));
}
std::string factor(const Errors& e) {
  return fmt::format("{:.1f}x too {}", e.worst_factor(), e.worst_ratio < 1 ? "fast" : "slow");
}
std::string some_of(std::size_t some, std::size_t all) {
  const auto text = [](std::size_t n) { return grouped(static_cast<std::int64_t>(n)); };
  return all == 0 ? "-" : fmt::format("{} of {}", text(some), text(all));
}
std::string in_order(const Ranking& r) { return some_of(r.in_order, r.pairs); }
std::string without_ties(const Ranking& r) { return some_of(r.sure_in_order, r.sure); }

// Which sizes of the problem distinguish the results of a group.
struct Varying {
  bool workers = false, tokens = false, heads = false, kv_heads = false, head_dim = false;
  bool dtype = false, mask = false, pass = false;
  explicit Varying(const ValidatedGroup& g) {
    const Problem& first = g.results[0].problem;
    for (const ValidatedResult& r : g.results) {
      workers = workers || r.problem.workers != first.workers;
      tokens = tokens || r.problem.tokens != first.tokens;
      heads = heads || r.problem.heads != first.heads;
      kv_heads = kv_heads || r.problem.kv_heads != first.kv_heads;
      head_dim = head_dim || r.problem.head_dim != first.head_dim;
      dtype = dtype || r.problem.dtype != first.dtype;
      mask = mask || r.problem.mask != first.mask;
      pass = pass || r.problem.pass != first.pass;
    }
    // Without a column, they are as many as the query heads, or as many for each.
    kv_heads = kv_heads && std::ranges::any_of(g.results, [&](const ValidatedResult& r) {
                 return r.problem.heads * first.kv_heads != first.heads * r.problem.kv_heads;
               });
  }
};

// "1,024 documents of 64", "7 documents", "7 documents, window:512", "causal".
std::string in_short(const Mask& m) {
  if (m.kind() != Mask::Kind::Documents) return to_text(m);
  const std::span<const std::int64_t> bounds = m.document_bounds();
  const auto count = static_cast<std::int64_t>(bounds.size()) - 1;
  const std::int64_t length = bounds[1] - bounds[0], window = m.window_size().value;
  const std::string tail = window > 0 ? fmt::format(", window:{}", window) : "";
  for (std::size_t d = 1; d < bounds.size(); ++d)
    if (bounds[d] - bounds[d - 1] != length)
      return fmt::format("{} documents{}", grouped(count), tail);
  return fmt::format("{} {} of {}{}", grouped(count), count == 1 ? "document" : "documents",
                     grouped(length), tail);
}

// What all results of a group share: "8 workers, 32 heads (8 kv) x 128, bf16, causal, forward".
std::string shared_sizes(const ValidatedGroup& g) {
  const Varying varying(g);
  const Problem& p = g.results[0].problem;
  std::vector<std::string> parts;
  if (!varying.workers) parts.push_back(counted(p.workers, "worker"));
  if (!varying.tokens) parts.push_back(counted(p.tokens.value, "token"));
  if (!varying.heads)
    parts.push_back(counted(p.heads, "head") + (varying.kv_heads || p.kv_heads == p.heads
                                                    ? std::string()
                                                    : fmt::format(" ({} kv)", p.kv_heads)));
  if (!varying.head_dim) parts.push_back(fmt::format("head dimension {}", p.head_dim));
  if (!varying.dtype) parts.emplace_back(to_text(p.dtype));
  if (!varying.mask) parts.push_back(in_short(p.mask));
  if (!varying.pass) parts.emplace_back(to_text(p.pass));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Rows rows_of(const ValidatedGroup& g) {
  const Varying varying(g);
  Rows rows = {{"schedule"}};
  for (const auto& [varies, title] : {std::pair{varying.workers, "workers"},
                                      {varying.heads, "heads"},
                                      {varying.kv_heads, "kv heads"},
                                      {varying.head_dim, "head dim"},
                                      {varying.tokens, "tokens"},
                                      {varying.dtype, "dtype"},
                                      {varying.mask, "mask"},
                                      {varying.pass, "pass"}})
    if (varies) rows[0].emplace_back(title);
  for (const char* title : {"published", "predicted", "80%", "", "difference", "error", "attend",
                            "overhead", "transfer", "contention", "host", "wait"})
    rows[0].emplace_back(title);
  for (const ValidatedResult& r : g.results) {
    std::vector<std::string> row = {r.overlap == Overlap::Prefetch
                                        ? r.schedule
                                        : fmt::format("{} ({})", r.schedule, to_text(r.overlap))};
    const Problem& p = r.problem;
    if (varying.workers) row.push_back(fmt::format("{}", p.workers));
    if (varying.heads) row.push_back(fmt::format("{}", p.heads));
    if (varying.kv_heads) row.push_back(fmt::format("{}", p.kv_heads));
    if (varying.head_dim) row.push_back(fmt::format("{}", p.head_dim));
    if (varying.tokens) row.push_back(grouped(p.tokens.value));
    if (varying.dtype) row.emplace_back(to_text(p.dtype));
    if (varying.mask) row.push_back(in_short(p.mask));
    if (varying.pass) row.emplace_back(to_text(p.pass));
    row.push_back(figure(g.measure, r.published));
    row.push_back(figure(g.measure, r.predicted));
    // Two times of different things have no difference.
    const bool compared = !g.order_only;
    row.push_back(r.interval ? fmt::format("{} to {}", figure(g.measure, r.interval->low),
                                           figure(g.measure, r.interval->high))
                             : "-");
    row.emplace_back(!r.interval || !compared ? "-" : holds(r) ? "inside" : "outside");
    row.push_back(compared ? difference(g.measure, r) : "-");
    row.push_back(r.impossible ? "impossible" : g.order_only ? "order only" : error(r.error));
    for (const double ms : {r.attending_ms, r.overhead_ms, r.communication_ms, r.contention_ms,
                            r.host_ms, r.waiting_ms})
      row.push_back(fmt::format("{:.2f} ms", ms));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> row_of(std::string name, const Errors& e) {
  if (e.results == 0)
    return {std::move(name),        "0", "-", "-", "-", "-", "-", "-", "-", in_order(e.ranking),
            without_ties(e.ranking)};
  return {std::move(name),
          grouped(static_cast<std::int64_t>(e.results)),
          share(e.median),
          share(e.mean),
          factor(e),
          share_of(e.too_fast, e.results),
          share_of(e.held, e.intervals),
          e.intervals == 0 ? "-" : share(e.half_width),
          in_order(e.ranking),
          without_ties(e.ranking)};
}

Rows with_titles(const char* what) {
  return {{what, "results", "median", "mean", "worst", "too fast", "inside", "width", "in order",
           "no ties"}};
}

// A source with many results says no more about the model than one with few: its errors have the
// same causes.
std::vector<std::string> each_source_once(const Validation& v) {
  std::vector<double> medians, means, widths;
  double too_fast = 0, held = 0;
  for (const std::string& source : v.sources()) {
    const Errors e = v.errors_of(source);
    if (e.results == 0 || e.intervals == 0) continue;
    medians.push_back(e.median);
    means.push_back(e.mean);
    widths.push_back(e.half_width);
    too_fast += static_cast<double>(e.too_fast) / static_cast<double>(e.results);
    held += static_cast<double>(e.held) / static_cast<double>(e.intervals);
  }
  const auto count = static_cast<double>(medians.size());
  if (medians.size() < 2) return {};
  return {"each source once",
          fmt::format("{}", medians.size()),
          share(median_of(medians)),
          share(median_of(means)),
          "",
          share(too_fast / count),
          share(held / count),
          share(median_of(widths)),
          "",
          ""};
}

Rows by_source(const Validation& v) {
  Rows rows = with_titles("source");
  for (const std::string& source : v.sources()) rows.push_back(row_of(source, v.errors_of(source)));
  rows.push_back(row_of("all", v.errors()));
  if (std::vector<std::string> row = each_source_once(v); !row.empty())
    rows.push_back(std::move(row));
  return rows;
}

Rows by_size(const Validation& v) {
  Rows rows = with_titles("tokens each");
  for (const SizeClass& c : kSizeClasses)
    if (const Errors e = v.errors_of(c); e.results > 0) rows.push_back(row_of(c.name, e));
  return rows;
}

Rows by_links(const Validation& v) {
  Rows rows = with_titles("links");
  for (const LinkClass c : kLinkClasses)
    if (const Errors e = v.errors_of(c); e.results > 0) rows.push_back(row_of(to_text(c), e));
  return rows;
}

Rows by_group(const Validation& v) {
  Rows rows = with_titles("group");
  for (const ValidatedGroup& g : v.groups) rows.push_back(row_of(g.name, errors_of(g)));
  return rows;
}

constexpr std::string_view kErrorColumns =
    "Error = predicted / published - 1: the median and mean of its absolute value, and the worst "
    "one as a factor. Too fast: the prediction is shorter than the measurement. "
    "Inside: the published value lies in the interval that should contain 80% of them. Width: how "
    "far that interval reaches each way (the median). In order: pairs of results of one problem "
    "that differ by more than 3% and are predicted in the published order. No ties: the same, of "
    "those pairs that the prediction orders the same way in at least 80% of its draws; it calls "
    "the others ties. Tokens each: tokens per worker "
    "(4K counts as 1K to 4K, 16K as 4K to 16K), without decoding. Each source once: the medians of "
    "the sources' errors and widths, and the means of their shares";

constexpr std::string_view kOrderOnly =
    "only the order is compared: the published times are of more than attention, or the machine "
    "has "
    "no figures for such kernels";

std::string ranking_of(const ValidatedGroup& g) {
  const Ranking r = g.ranking();
  if (r.pairs == 0) return "";
  std::string out = fmt::format(
      "{} of {} pairs that differ by more than 3% are in the published order", r.in_order, r.pairs);
  if (r.sure > 0) out += fmt::format("; {} without ties", without_ties(r));
  return out;
}

// A name may have what ends a cell, or a line.
std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string markdown_table(const Rows& rows) {
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (const std::string& cell : rows[i]) out += fmt::format(" {} |", markdown_cell(cell));
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (std::size_t c = 0; c < rows[i].size(); ++c) out += c == 0 ? "---|" : "---:|";
    out += "\n";
  }
  return out;
}

}  // namespace

std::vector<std::string> summary_lines(const Errors& e) {
  std::vector<std::string> lines;
  if (e.results == 0)
    lines = {e.ranking.pairs > 0 ? "only orders to compare" : "no results to count"};
  else
    lines = {
        fmt::format("{}: median error {}, mean {}",
                    counted(static_cast<std::int64_t>(e.results), "result"), share(e.median),
                    share(e.mean)),
        fmt::format("worst: too {} by a factor of {:.3g} ({}, {})",
                    e.worst_ratio < 1 ? "short" : "long", e.worst_factor(), e.worst_group,
                    e.worst_schedule),
        fmt::format("{} of the predicted times are too short", share_of(e.too_fast, e.results))};
  if (e.ranking.pairs > 0)
    lines.push_back(fmt::format(
        "picked the faster of two schedules in {} cases ({})", in_order(e.ranking),
        e.ranking.sure > 0 ? fmt::format("without predicted ties: {}", without_ties(e.ranking))
                           : "all of them ties"));
  if (e.intervals > 0)
    lines.push_back(fmt::format(
        "{} of the measurements lie in the predicted 80% intervals (median half-width {})",
        share_of(e.held, e.intervals), share(e.half_width)));
  return lines;
}

std::string text_of(const Validation& v, ValidationDetail detail) {
  const bool rows = detail == ValidationDetail::Rows;
  std::string out;
  for (const std::string& line : summary_lines(v.errors()))
    out += in_lines(line, 2, page_columns()) + "\n";
  out += "\n" + table_of_names(by_source(v), terminal_columns()) + "\n";
  if (!rows) {
    if (by_links(v).size() > 1) out += table_of_names(by_links(v), terminal_columns()) + "\n";
    if (by_size(v).size() > 1) out += table_of_names(by_size(v), terminal_columns()) + "\n";
  }
  if (detail == ValidationDetail::Groups) out += table_of_names(by_group(v), page_columns()) + "\n";
  for (const ValidatedGroup& g : v.groups) {
    if (!rows) break;
    out += fmt::format("{} ({})\n", g.name, unit_of(g.measure));
    if (!g.source.empty()) out += fmt::format("  {}\n", g.source);
    out += on_terminal_lines("  " + shared_sizes(g), 2) + "\n";
    out += table(rows_of(g));
    if (g.order_only) out += fmt::format("{}\n", kOrderOnly);
    if (const std::string r = ranking_of(g); !r.empty()) out += fmt::format("ranking: {}\n", r);
    if (!g.why.empty()) out += in_lines(fmt::format("notes: {}", g.why), 2, page_columns()) + "\n";
    out += "\n";
  }
  out += in_lines(fmt::format("{}.", kErrorColumns)) + "\n";
  if (detail == ValidationDetail::Summary) {
    out += fmt::format(
        "\n--groups adds a line for each of the {} groups, and the {} notes on what was left out; "
        "\n--rows prints every result.\n",
        grouped(static_cast<std::int64_t>(v.groups.size())), v.excluded.size());
    return out;
  }
  if (!v.excluded.empty()) out += "\nleft out\n";
  for (const Excluded& e : v.excluded)
    out += on_terminal_lines(fmt::format("  {}: {}", e.what, e.reason), 4) + "\n";
  return out;
}

namespace {

constexpr std::string_view kPublishedPage =
    "# Predictions against published measurements\n\n"
    "`ringsched validate --format markdown` writes this page; do not edit it. The measurements\n"
    "are in [validation/](../validation/), the machines in [machines/](../machines/). Machines "
    "are\ncalibrated only on figures of kernels and links: no measurement below set a constant, "
    "and we\nleft none out because of its error.\n\n"
    "[validation](validation.md) compares predictions with runs of this program itself.\n\n";

}  // namespace

std::string markdown_of(const Validation& v, std::string_view file) {
  std::string out = file.empty() ? std::string(kPublishedPage)
                                 : fmt::format("# Predictions against the measurements of {}\n\n",
                                               printable(file, 100));
  out +=
      fmt::format("**{}.**\n\n{}.\n\n", fmt::join(summary_lines(v.errors()), "; "), kErrorColumns) +
      markdown_table(by_source(v)) + "\n" + markdown_table(by_links(v)) + "\n" +
      markdown_table(by_size(v)) + "\n## By group\n\n" + markdown_table(by_group(v)) +
      "\nIn the tables below, the columns after *error* say where the predicted time goes, on the "
      "critical\npath" +
      (file.empty() ? " ([metrics](metrics.md)).\n" : ".\n");
  for (const ValidatedGroup& g : v.groups) {
    out += fmt::format("\n## {}\n\n{}Unit: {}.\n\n", g.name,
                       g.source.empty() ? "" : g.source + ". ", unit_of(g.measure));
    out += markdown_table(rows_of(g));
    if (g.order_only) out += fmt::format("\nHere {}.\n", kOrderOnly);
    if (const std::string r = ranking_of(g); !r.empty()) out += fmt::format("\nRanking: {}.\n", r);
    if (!g.why.empty()) out += fmt::format("\nNotes: {}.\n", g.why);
  }
  if (!v.excluded.empty()) out += "\n## Left out\n\n";
  for (const Excluded& e : v.excluded) out += fmt::format("- {}: {}.\n", e.what, e.reason);
  return out;
}

}  // namespace ringsched
