#include "titles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "axis.hpp"

namespace ringsched {

namespace {

constexpr double kEqual = 1e-6;  // of a value: smaller differences are none

// What is said of the best.
struct Praise {
  const char *one, *several;
};
constexpr Praise kFastest = {"is fastest", "are fastest"};
constexpr Praise kSmallest = {"needs the least memory", "need the least memory"};
constexpr Praise kSpeedsUp = {"speeds up most", "speed up most"};

Praise praise_of(PlotUnit y) {
  return y == PlotUnit::Memory ? kSmallest : y == PlotUnit::Times ? kSpeedsUp : kFastest;
}
bool is_better_low(PlotUnit y) {
  return y != PlotUnit::Times && y != PlotUnit::PerSecond && y != PlotUnit::Count;
}

// The names of the least, and of all that equal it.
using Names = std::vector<std::string>;
struct Candidates {
  std::vector<std::pair<double, std::string>> all;
  void add(const std::string& name, double value) { all.emplace_back(value, name); }
  Names least() const {
    Names names;
    if (all.empty()) return names;
    const double best = std::min_element(all.begin(), all.end())->first;
    for (const auto& [value, name] : all)
      if (value - best <= kEqual * std::abs(best)) names.push_back(name);
    return names;
  }
};

std::string said_of(const Names& names, Praise praise) {
  constexpr std::size_t kMostNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  if (names.size() > kMostNamed) text = fmt::format("{} schedules", names.size());
  return fmt::format("{} {}", text, names.size() == 1 ? praise.one : praise.several);
}

std::string percent(double share) {
  return fmt::format("{:.{}f}%", 100 * share, share < 0.095 ? 1 : 0);
}

// The one that wins most often, alone or beside others, and how often.
std::pair<std::string, std::size_t> champion(const std::vector<Names>& winners) {
  std::map<std::string, std::size_t> times;
  std::pair<std::string, std::size_t> most;
  for (const Names& names : winners)
    for (const std::string& name : names)
      if (++times[name] > most.second) most = {name, times[name]};
  return most;
}

// "balanced is fastest in 14 of 20 settings"
std::string most_often(const std::vector<Names>& winners, Praise praise) {
  if (winners.size() == 1) return said_of(winners[0], praise);
  const auto [name, times] = champion(winners);
  return times == winners.size()
             ? fmt::format("{} in all {} settings", said_of({name}, praise), times)
             : fmt::format("{} in {} of {} settings", said_of({name}, praise), times,
                           winners.size());
}

// Of one panel, by x.
std::string along_the_axis(const std::map<double, Names>& winners, Praise praise,
                           const std::string& x_name) {
  std::vector<Names> all;
  std::vector<double> changes;  // where others win than before
  for (const auto& [x, names] : winners) {
    if (!all.empty() && all.back() != names) changes.push_back(x);
    all.push_back(names);
  }
  const auto [name, times] = champion(all);
  if (times == all.size() && all.size() > 1)
    return fmt::format(
        "{} from {} to {} {}", said_of(changes.empty() ? all[0] : Names{name}, praise),
        short_count(winners.begin()->first), short_count(winners.rbegin()->first), x_name);
  if (changes.size() != 1) return most_often(all, praise);
  return fmt::format("{} from {} {} on; below, {}", said_of(all.back(), praise),
                     short_count(changes[0]), x_name, said_of(all[0], praise));
}

std::size_t names_in(const Plot& plot) {
  Names names;
  for (const PlotPanel& panel : plot.panels)
    for (const PlotLine& line : panel.lines)
      if (std::find(names.begin(), names.end(), line.name) == names.end())
        names.push_back(line.name);
  return names.size();
}

// Of one schedule: how much the line rises.
std::string growth(const Plot& plot) {
  const PlotLine& line = plot.panels[0].lines[0];
  const PlotPoint &a = line.points.front(), &b = line.points.back();
  const double ratio = b.y >= a.y ? b.y / a.y : a.y / b.y;
  return fmt::format("{}: {} {} {:.{}f}x from {} to {} {}", line.name, plot.y_name,
                     b.y >= a.y ? "grows" : "shrinks", ratio, ratio < 9.95 ? 1 : 0,
                     short_count(a.x), short_count(b.x), plot.x_name);
}

}  // namespace

std::string title_of(const Plot& plot) {
  if (names_in(plot) == 1 && plot.panels.size() == 1) return growth(plot);
  const double sign = is_better_low(plot.y) ? 1 : -1;
  std::vector<Names> all;
  std::map<double, Names> winners;  // of the last panel
  for (const PlotPanel& panel : plot.panels) {
    std::map<double, Candidates> at;
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points)
        if (!p.hollow) at[p.x].add(line.name, sign * p.y);
    winners.clear();
    for (const auto& [x, candidates] : at) all.push_back(winners[x] = candidates.least());
  }
  if (all.empty()) return "Nothing fits in the memory of a device";
  return plot.panels.size() == 1 ? along_the_axis(winners, praise_of(plot.y), plot.x_name)
                                 : most_often(all, praise_of(plot.y));
}

std::string title_of(const BestMap& map) {
  std::vector<Names> all;
  for (const BestPanel& panel : map.panels)
    for (const BestCell& c : panel.cells) all.push_back({c.best});
  return most_often(all, kFastest);
}

std::string front_title(const Plot& plot) {
  std::vector<Names> fastest, smallest;
  for (const PlotPanel& panel : plot.panels) {
    Candidates time, memory;
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points) {
        if (p.hollow) continue;
        time.add(line.name, p.y);
        memory.add(line.name, p.x);
      }
    if (time.all.empty()) continue;
    fastest.push_back(time.least());
    smallest.push_back(memory.least());
  }
  if (fastest.empty()) return "Nothing fits in the memory of a device";
  if (fastest.size() > 1) return most_often(fastest, kFastest);
  if (fastest[0] != smallest[0])
    return fmt::format("{}, {}", said_of(fastest[0], kFastest), said_of(smallest[0], kSmallest));
  return said_of(fastest[0], {"is fastest and needs the least memory",
                              "are fastest and need the least memory"});
}

std::string agreement_title(const Plot& plot, double tolerance) {
  std::size_t all = 0, close = 0;
  for (const PlotPanel& panel : plot.panels)
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points) {
        ++all;
        close += std::abs(p.y / p.x - 1) <= tolerance;
      }
  return fmt::format("{} of {} predictions are within {:.0f}% of what was published", close, all,
                     100 * tolerance);
}

std::string title_of(const TimeBars& bars) {
  const auto share = [](const TimeBar& b) {
    return fmt::format("{:.0f}%", 100 * b.attending / b.total());
  };
  std::vector<Names> winners;
  for (const TimePanel& panel : bars.panels) {
    Candidates time;
    for (const TimeBar& b : panel.bars) time.add(b.name, b.total());
    winners.push_back(time.least());
  }
  const std::vector<TimeBar>& first = bars.panels[0].bars;
  if (bars.panels.size() == 1 && first.size() == 1)
    return fmt::format("{} attends for {} of its time", first[0].name, share(first[0]));
  if (bars.panels.size() > 1 || winners[0].size() > 1) return most_often(winners, kFastest);
  const auto [least, most] =
      std::minmax_element(first.begin(), first.end(),
                          [](const TimeBar& a, const TimeBar& b) { return a.total() < b.total(); });
  return fmt::format("{} is fastest: it attends for {} of its time, {}, the slowest, for {}",
                     least->name, share(*least), most->name, share(*most));
}

std::string title_of(const Tornado& t) {
  const auto best =
      std::min_element(t.changes.begin(), t.changes.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best == t.changes.end() || best->second >= t.base * (1 - 0.0005))
    return "No change here makes the run shorter";
  std::string what = best->first;
  what[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(what[0])));
  return fmt::format("{} would help most: the run would end {} sooner", what,
                     percent(1 - best->second / t.base));
}

double at_share(const std::vector<double>& sorted, double share) {
  const auto i =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::min(sorted.size(), std::max<std::size_t>(i, 1)) - 1];
}

std::string title_of(const RunsPlot& plot) {
  std::vector<std::pair<double, std::string>> medians;
  for (const RunsRow& row : plot.rows) {
    std::vector<double> sorted = row.times;
    std::sort(sorted.begin(), sorted.end());
    medians.emplace_back(at_share(sorted, 0.5), row.name);
    if (plot.rows.size() > 1) continue;
    const double low = at_share(sorted, 0.05), high = at_share(sorted, 0.95);
    return fmt::format("{}: the middle 90% of {} runs differ by up to {}", row.name, sorted.size(),
                       percent(high / low - 1));
  }
  std::stable_sort(medians.begin(), medians.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (medians[1].first <= medians[0].first * (1 + kEqual))
    return fmt::format("{} and {} have the same median", medians[0].second, medians[1].second);
  return fmt::format("{} has the lowest median, {} below that of {}", medians[0].second,
                     percent(1 - medians[0].first / medians[1].first), medians[1].second);
}

}  // namespace ringsched
