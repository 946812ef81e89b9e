// The rows of a sweep as charts: what is a line, what is an axis, and what gets its own panels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "axis.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "style.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostPanels = 24, kMostSweepRows = 20'000;

// The columns of a setting, if the file has them.
constexpr std::array<const char*, 13> kSettings = {
    "machine", "workers", "tokens",     "heads",   "kv_heads",  "head_dim",  "dtype",
    "mask",    "pass",    "new_tokens", "overlap", "exchanges", "conditions"};

std::string described(const std::string& column, const std::string& value) {
  if (column == "workers") return value + (value == "1" ? " worker" : " workers");
  if (column == "tokens") {
    double n = 0;
    try {
      n = std::stod(value);
    } catch (const std::exception&) {
      return value + " tokens";
    }
    return short_count(n) + " tokens";
  }
  if (column == "heads") return value + " heads";
  if (column == "kv_heads") return value + " kv heads";
  if (column == "head_dim") return "head dim " + value;
  if (column == "new_tokens") return value + " new tokens";
  if (column == "overlap") return "overlap " + value;
  if (column == "exchanges") return value + " exchanges";
  if (column == "pass" && value == "both") return "forward and backward";
  return value.empty() ? "as usual" : value;
}

class SweepTable {
 public:
  explicit SweepTable(const Records& r) : r_(r), schedule_(r.column("schedule")) {
    if (r.rows.size() > kMostSweepRows)
      fail("{}: {} rows are too many to draw (limit {})", r.name, r.rows.size(), kMostSweepRows);
    makespan_ = r.column("makespan_us");
    for (std::size_t i = 0; i < r.rows.size(); ++i)
      if (r.number(i, makespan_)) held_.push_back(i);
    if (held_.empty()) fail("{}: no row has a result", r.name);
    for (const char* name : kSettings)
      if (const auto c = r.find(name)) settings_.push_back(*c);
    std::vector<std::string> names;
    for (const std::size_t i : held_) names.push_back(cell(i, schedule_));
    const std::vector<std::string> shorter = without_usual(names);
    for (std::size_t i = 0; i < names.size(); ++i) names_.emplace(names[i], shorter[i]);
  }

  const std::vector<std::size_t>& rows() const { return held_; }
  const std::string& cell(std::size_t row, std::size_t column) const {
    return r_.rows[row][column];
  }
  std::string schedule(std::size_t row) const {
    const auto at = names_.find(cell(row, schedule_));
    const std::string& name = at == names_.end() ? cell(row, schedule_) : at->second;
    return name.empty() ? "(no name)" : printable(name, 60);
  }
  double number(std::size_t row, std::size_t column) const {
    const auto x = r_.number(row, column);
    if (!x) fail("{}: row {}: {} is empty", r_.name, row + 1, r_.columns[column]);
    return *x;
  }
  double positive(std::size_t row, std::size_t column) const {
    const double x = number(row, column);
    if (!(x >= 1e-9) || x > 1e18)
      fail("{}: row {}: {} is {}; it must be from 1e-9 to 1e18", r_.name, row + 1,
           r_.columns[column], printable(cell(row, column), 40));
    return x;
  }
  double makespan(std::size_t row) const { return positive(row, makespan_); }
  bool hollow(std::size_t row) const {
    const auto fits = r_.find("fits");
    return fits && cell(row, *fits) == "no";
  }
  // Schedules may make the same plan, such as `ulysses` and `usp` on one node.
  bool same_results(std::size_t a, std::size_t b) const {
    for (const char* name : {"makespan_us", "idle_fraction", "overlap_fraction",
                             "exposed_communication_us", "peak_bytes"}) {
      const auto column = r_.find(name);
      if (!column || cell(a, *column) != cell(b, *column)) return false;
    }
    return true;
  }
  std::size_t values(std::size_t column) const {
    std::set<std::string> found;
    for (const std::size_t i : held_) found.insert(cell(i, column));
    return found.size();
  }
  bool varies(const char* column) const {
    const auto c = r_.find(column);
    return c && values(*c) > 1;
  }
  // Does each value of `by` go with one value of the column?
  bool follows(std::size_t column, const std::vector<std::size_t>& by) const {
    std::map<std::string, std::string> seen;
    for (const std::size_t i : held_) {
      std::string key;
      for (const std::size_t c : by) key += cell(i, c) + '\n';
      const auto [at, fresh] = seen.emplace(key, cell(i, column));
      if (!fresh && at->second != cell(i, column)) return false;
    }
    return true;
  }

  // The columns that distinguish panels: they vary, and neither the axes nor the schedule determine
  // them.
  std::vector<std::size_t> facets(const std::vector<std::size_t>& axes) const {
    std::vector<std::size_t> out;
    for (const std::size_t c : settings_) {
      if (std::find(axes.begin(), axes.end(), c) != axes.end() || values(c) < 2) continue;
      std::vector<std::size_t> known = axes;
      known.insert(known.end(), out.begin(), out.end());
      if ((!axes.empty() && follows(c, axes)) || follows(c, {schedule_}) || follows(c, known))
        continue;
      out.push_back(c);
    }
    return out;
  }
  // Panels in the order of the file, with their rows.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> panels(
      const std::vector<std::size_t>& by) const {
    std::vector<std::pair<std::string, std::vector<std::size_t>>> out;
    std::map<std::string, std::size_t> places;
    for (const std::size_t i : held_) {
      std::string key, name;
      for (const std::size_t c : by) {
        key += cell(i, c) + '\n';
        name += (name.empty() ? "" : ", ") + described(r_.columns[c], printable(cell(i, c), 60));
      }
      const auto [at, fresh] = places.emplace(key, out.size());
      if (fresh) out.emplace_back(name, std::vector<std::size_t>());
      out[at->second].second.push_back(i);
      if (out.size() > kMostPanels)
        fail("{}: more than {} panels would be needed; plot a sweep in which less varies", r_.name,
             kMostPanels);
    }
    return out;
  }
  // What all rows share.
  std::string subject() const {
    std::string out;
    for (const std::size_t c : settings_) {
      const std::string& value = cell(held_[0], c);
      const std::string& name = r_.columns[c];
      if (values(c) > 1 || value.empty() || (name == "new_tokens" && value == "0") ||
          (name == "overlap" && value == "prefetch") || (name == "exchanges" && value == "native"))
        continue;
      std::string words = described(name, printable(value, 60));
      if (name == "conditions") {  // without the hash of a user's own profile
        words.erase(std::min(words.find("profile "), words.size()));
        if (words.ends_with("; ")) words.resize(words.size() - 2);
        if (words.empty()) continue;
      }
      out += (out.empty() ? "" : ", ") + words;
    }
    return out;
  }
  // Blocks and seconds cannot be compared. Without units, the machine `ideal` has blocks.
  PlotUnit time_unit() const {
    const auto unit = r_.find("unit"), machine = r_.find("machine");
    std::size_t blocks = 0;
    for (const std::size_t i : held_)
      blocks += unit ? cell(i, *unit) == "blocks" : machine && cell(i, *machine) == "ideal";
    if (blocks == 0) return PlotUnit::Microseconds;
    if (blocks != held_.size())
      fail("{}: the machine ideal has times in blocks, the others in seconds; plot them separately",
           r_.name);
    return PlotUnit::Blocks;
  }
  // Throws Error if two rows of a panel are of one schedule at one place.
  void require_one(std::set<std::string>& seen, std::size_t row, const std::string& place) const {
    if (!seen.insert(schedule(row) + '\n' + place).second)
      fail("{}: row {}: {} has a second result for the same setting", r_.name, row + 1,
           schedule(row));
  }

 private:
  const Records& r_;
  std::size_t schedule_, makespan_ = 0;
  std::vector<std::size_t> held_, settings_;
  std::map<std::string, std::string> names_;  // of schedules, as charts have them
};

struct Look {
  const char* name;
  const char* column;
  PlotUnit unit;
};
Look look_of(PlotY y) {
  switch (y) {
    case PlotY::Time:
      return {"time", "makespan_us", PlotUnit::Microseconds};
    case PlotY::Speedup:
      return {"speed-up over one device", "speedup", PlotUnit::Times};
    case PlotY::TokensPerSecond:
      return {"tokens per second", "makespan_us", PlotUnit::PerSecond};
    case PlotY::Memory:
      break;
  }
  return {"peak memory of a worker", "peak_bytes", PlotUnit::Memory};
}

std::size_t x_column(const Records& r, const SweepTable& t, const std::string& x) {
  if (!x.empty()) {
    if (x != "tokens" && x != "workers") fail("--x is {}; use tokens or workers", x);
    const std::size_t c = r.column(x);
    if (t.values(c) < 2)
      fail("{}: {} is the same in all rows ({}), so there is no line to draw over it", r.name, x,
           printable(t.cell(t.rows()[0], c), 40));
    return c;
  }
  const std::size_t tokens = r.column("tokens"), workers = r.column("workers");
  if (t.values(workers) > 1 && t.follows(tokens, {workers})) return workers;
  if (t.values(tokens) > 1) return tokens;
  fail(
      "{}: neither tokens nor workers vary; sweep over --tokens or --workers, or use --kind "
      "pareto or breakdown",
      r.name);
}

// Of the makespan, if the file has it: a pair of times, the second not below the first.
std::optional<std::pair<double, double>> interval_of(const Records& r, std::size_t row) {
  const auto low = r.find("interval_low_us"), high = r.find("interval_high_us");
  if (!low || !high) return std::nullopt;
  const auto a = r.number(row, *low), b = r.number(row, *high);
  if (!a || !b || !(*a > 0) || !(*b >= *a)) return std::nullopt;
  return std::pair(*a, *b);
}

void set_interval(const Records& r, std::size_t row, PlotY y, double tokens, PlotPoint& p) {
  const auto times = interval_of(r, row);
  if (!times || (y != PlotY::Time && y != PlotY::TokensPerSecond)) return;
  p.low = y == PlotY::Time ? times->first : tokens * 1e6 / times->second;
  p.high = y == PlotY::Time ? times->second : tokens * 1e6 / times->first;
}

PlotLine& line_of(PlotPanel& panel, const std::string& name) {
  for (PlotLine& line : panel.lines)
    if (line.name == name) return line;
  return panel.lines.emplace_back(PlotLine{name, {}});
}

}  // namespace

PlotY parse_plot_y(std::string_view text) {
  if (text == "time") return PlotY::Time;
  if (text == "speedup") return PlotY::Speedup;
  if (text == "tokens-per-second") return PlotY::TokensPerSecond;
  if (text == "memory") return PlotY::Memory;
  fail("--y is {}; use time, speedup, tokens-per-second or memory", text);
}

bool has_lines(const Records& r) {
  const SweepTable t(r);
  return t.varies("tokens") || t.varies("workers");
}

Plot sweep_lines(const Records& r, PlotY y, const std::string& x) {
  const SweepTable t(r);
  const Look look = look_of(y);
  const std::size_t y_column = r.column(look.column), at = x_column(r, t, x);
  const PlotUnit time = t.time_unit();
  if (y == PlotY::TokensPerSecond && time == PlotUnit::Blocks)
    fail("{}: blocks have no seconds; use --y time or speedup", r.name);
  Plot plot;
  plot.x_name = r.columns[at];
  plot.y_name = look.name;
  plot.y = y == PlotY::Time ? time : look.unit;
  plot.subject = t.subject();
  plot.ideal = y == PlotY::Speedup && plot.x_name == "workers";
  const auto tokens = r.find("tokens"), fresh = r.find("new_tokens");
  for (const auto& [name, rows] : t.panels(t.facets({at}))) {
    PlotPanel& panel = plot.panels.emplace_back(PlotPanel{name, {}});
    std::set<std::string> seen;
    for (const std::size_t row : rows) {
      t.require_one(seen, row, t.cell(row, at));
      PlotPoint p;
      p.x = t.positive(row, at);
      p.y = t.positive(row, y_column);
      double count = 0;
      if (y == PlotY::TokensPerSecond) {
        if (fresh) count = r.number(row, *fresh).value_or(0);
        if (count <= 0)
          count = tokens ? t.positive(row, *tokens) : t.positive(row, r.column("tokens"));
        p.y = count * 1e6 / p.y;
      }
      set_interval(r, row, y, count, p);
      p.hollow = t.hollow(row);
      p.about = fmt::format("{}, {} {}: {} {}", t.schedule(row), r.columns[at],
                            printable(t.cell(row, at), 40), look.column,
                            printable(t.cell(row, y_column), 40));
      line_of(panel, t.schedule(row)).points.push_back(std::move(p));
    }
    for (PlotLine& line : panel.lines)
      std::stable_sort(line.points.begin(), line.points.end(),
                       [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
  }
  return plot;
}

namespace {

// Of a cell: schedules that make the best plan, those that make the second best, and so on, as far
// as they are nearly as fast.
using CellNames = std::vector<std::vector<std::string>>;

// Of schedules that make one plan, each cell names the one that is best in most cells.
void name_cells(BestMap& map, const std::vector<CellNames>& cells) {
  std::map<std::string, std::size_t> times;
  for (const CellNames& names : cells)
    for (const std::string& name : names[0]) ++times[name];
  auto cell = cells.begin();
  for (BestPanel& panel : map.panels)
    for (BestCell& c : panel.cells) {
      for (const std::vector<std::string>& names : *cell)
        c.near.push_back(
            *std::ranges::max_element(names, {}, [&](const auto& name) { return times[name]; }));
      c.best = c.near[0];
      if (c.near.size() > 1) c.tie = c.near[1];
      ++cell;
    }
}

}  // namespace

BestMap sweep_map(const Records& r) {
  const SweepTable t(r);
  const std::size_t tokens = r.column("tokens"), workers = r.column("workers");
  if (t.values(tokens) < 2 && t.values(workers) < 2)
    fail("{}: neither tokens nor workers vary, so the map would be one cell", r.name);
  t.time_unit();
  BestMap map;
  map.subject = t.subject();
  map.x_name = "tokens";
  map.y_name = "workers";
  std::vector<CellNames> names;  // by cell
  for (const auto& [name, rows] : t.panels(t.facets({tokens, workers}))) {
    BestPanel& panel = map.panels.emplace_back(BestPanel{name, {}});
    std::map<std::pair<double, double>, std::vector<std::size_t>> cells;
    std::set<std::string> seen;
    for (const std::size_t row : rows) {
      t.require_one(seen, row, t.cell(row, tokens) + '\n' + t.cell(row, workers));
      if (!t.hollow(row)) cells[{t.positive(row, tokens), t.positive(row, workers)}].push_back(row);
    }
    for (auto& [place, rows_here] : cells) {
      auto& all = rows_here;
      std::stable_sort(all.begin(), all.end(),
                       [&](std::size_t a, std::size_t b) { return t.makespan(a) < t.makespan(b); });
      BestCell c{place.first, place.second, {}, {}, {}, {}};
      CellNames& groups = names.emplace_back();
      std::vector<std::size_t> first;  // of each group
      for (const std::size_t row : all) {
        if (t.makespan(row) > (1 + kNearlyAsFast) * t.makespan(all[0])) break;
        const auto same = std::ranges::find_if(
            first, [&](std::size_t other) { return t.same_results(other, row); });
        if (same == first.end()) groups.emplace_back();
        groups[static_cast<std::size_t>(same - first.begin())].push_back(t.schedule(row));
        if (same == first.end()) first.push_back(row);
      }
      for (const std::size_t row : all)
        c.about += fmt::format("{}{} {:.6g}", c.about.empty() ? "" : ", ", t.schedule(row),
                               t.makespan(row));
      panel.cells.push_back(std::move(c));
    }
  }
  std::erase_if(map.panels, [](const BestPanel& p) { return p.cells.empty(); });
  if (map.panels.empty()) fail("{}: nothing fits in the memory of a device", r.name);
  name_cells(map, names);
  return map;
}

Plot sweep_front(const Records& r) {
  const SweepTable t(r);
  const std::size_t bytes = r.column("peak_bytes");
  Plot plot;
  plot.subject = t.subject();
  plot.x_name = "peak memory of a worker";
  plot.y_name = "time";
  plot.x = PlotUnit::Memory;
  plot.y = t.time_unit();
  for (const auto& [name, rows] : t.panels(t.facets({}))) {
    PlotPanel& panel = plot.panels.emplace_back(PlotPanel{name, {}});
    std::set<std::string> seen;
    for (const std::size_t row : rows) {
      t.require_one(seen, row, {});
      PlotPoint p;
      p.x = t.positive(row, bytes);
      p.y = t.makespan(row);
      p.hollow = t.hollow(row);
      p.about = fmt::format("{}: peak_bytes {}, makespan_us {}", t.schedule(row),
                            printable(t.cell(row, bytes), 40),
                            printable(t.cell(row, r.column("makespan_us")), 40));
      line_of(panel, t.schedule(row)).points.push_back(std::move(p));
    }
  }
  return plot;
}

TimeBars sweep_bars(const Records& r) {
  const SweepTable t(r);
  const auto part = [&](std::size_t row, const char* column) {
    const double x = t.number(row, r.column(column));
    if (x < 0 || x > 1e18) fail("{}: row {}: {} is {:g}", r.name, row + 1, column, x);
    return x;
  };
  TimeBars bars;
  bars.subject = t.subject();
  bars.unit = t.time_unit();
  for (const auto& [name, rows] : t.panels(t.facets({}))) {
    TimePanel& panel = bars.panels.emplace_back(TimePanel{name, {}});
    std::set<std::string> seen;
    for (const std::size_t row : rows) {
      t.require_one(seen, row, {});
      TimeBar b;
      b.name = t.schedule(row);
      b.attending = part(row, "attending_us");
      b.overhead = part(row, "overhead_us");
      b.waiting_for_host = part(row, "waiting_for_host_us");
      b.waiting = std::max(0.0, part(row, "waiting_us") - b.waiting_for_host);
      b.done = part(row, "out_of_work_us");
      b.exposed = part(row, "exposed_communication_us");
      b.bound = part(row, "bound_us");
      if (const auto sure = interval_of(r, row)) std::tie(b.low, b.high) = *sure;
      if (!(b.total() > 0)) fail("{}: row {}: its parts are all 0", r.name, row + 1);
      panel.bars.push_back(std::move(b));
    }
  }
  return bars;
}

}  // namespace ringsched
