#include "titles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "axis.hpp"

namespace ringsched {

namespace {

constexpr double kEqual = 1e-6;  // of a value: smaller differences do not count

// How a title praises the best, and those that are nearly as good.
struct Praise {
  const char *one, *several, *nearly;
  double near = kNearlyAsFast;  // of the best: those as near are named with it
};
constexpr Praise kFastest = {"is fastest", "are fastest", "the fastest"};
constexpr Praise kSmallest = {"needs the least memory", "need the least memory", "the least memory",
                              kEqual};
constexpr Praise kSpeedsUp = {"speeds up most", "speed up most", "the greatest speed-up"};

Praise praise_of(PlotUnit y) {
  return y == PlotUnit::Memory ? kSmallest : y == PlotUnit::Times ? kSpeedsUp : kFastest;
}
bool is_better_low(PlotUnit y) {
  return y != PlotUnit::Times && y != PlotUnit::PerSecond && y != PlotUnit::Count;
}

using Names = std::vector<std::string>;
// The best and all that are near it.
struct Leaders {
  Names names;
  bool equal = true;  // none is worse than the others
  bool operator==(const Leaders&) const = default;
};
struct Candidates {
  std::vector<std::pair<double, std::string>> all;
  void add(const std::string& name, double value) { all.emplace_back(value, name); }
  // Values are positive, and the least is best, or the greatest.
  Leaders leaders(double near, bool low = true) const {
    Leaders found;
    double best = 0;
    for (const auto& [value, name] : all)
      if (best == 0 || (low ? value < best : value > best)) best = value;
    for (const auto& [value, name] : all) {
      const double worse = low ? value / best - 1 : best / value - 1;
      if (worse > near) continue;
      found.names.push_back(name);
      found.equal = found.equal && worse <= kEqual;
    }
    return found;
  }
};

std::string within(Praise praise) { return fmt::format("within {:.0f}%", 100 * praise.near); }

constexpr std::size_t kMostNamed = 3;

std::string listed(const Names& names) {
  if (names.size() > kMostNamed) return fmt::format("{} schedules", names.size());
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// "ring is fastest", "ring and zigzag are fastest, within 3%", "4 schedules are within 3% of the
// fastest"
std::string said_of(const Leaders& leaders, Praise praise) {
  const std::size_t n = leaders.names.size();
  if (!leaders.equal && n > 2)
    return fmt::format("{} schedules are {} of {}", n, within(praise), praise.nearly);
  return fmt::format("{} {}{}", listed(leaders.names), n == 1 ? praise.one : praise.several,
                     leaders.equal ? "" : ", " + within(praise));
}

std::string percent(double share) {
  return fmt::format("{:.{}f}%", 100 * share, share < 0.095 ? 1 : 0);
}

// The same before more words: "ring and zigzag are fastest, within 3%,"
std::string begun(std::string said) { return said + (said.ends_with('%') ? "," : ""); }

// Those that lead most often, alone or beside others: of them, those that are best most often.
struct Champions {
  Names names;
  std::size_t times = 0;
  bool always_best = true;  // whenever they lead, none that is near differs
};
Champions champions(const std::vector<Leaders>& settings) {
  struct Count {
    std::size_t near = 0, best = 0;
    auto operator<=>(const Count&) const = default;
  };
  Names order;
  std::map<std::string, Count> counts;
  Count most;
  for (const Leaders& leaders : settings)
    for (const std::string& name : leaders.names) {
      if (!counts.contains(name)) order.push_back(name);
      Count& count = counts[name];
      ++count.near;
      count.best += leaders.equal;
      most = std::max(most, count);
    }
  Champions found;
  found.times = most.near;
  found.always_best = most.best == most.near;
  for (const std::string& name : order)
    if (counts[name] == most) found.names.push_back(name);
  return found;
}

// "balanced is fastest", or "balanced is within 3% of the fastest"
std::string said_of(const Champions& c, Praise praise) {
  const bool one = c.names.size() == 1;
  if (c.always_best)
    return fmt::format("{} {}", listed(c.names), one ? praise.one : praise.several);
  return fmt::format("{} {} {} of {}", listed(c.names), one ? "is" : "are", within(praise),
                     praise.nearly);
}

// "balanced is fastest in 14 of 20 settings"
std::string most_often(const std::vector<Leaders>& settings, Praise praise) {
  if (settings.size() == 1) return said_of(settings[0], praise);
  const Champions c = champions(settings);
  if (c.times < settings.size()) {
    if (c.names.size() > 1 && c.times == 1)
      return fmt::format("No schedule {} in more than one of {} settings", praise.one,
                         settings.size());
    return fmt::format("{} in {} of {} settings", said_of(c, praise), c.times, settings.size());
  }
  const bool same =
      std::ranges::all_of(settings, [&](const Leaders& leaders) { return leaders == settings[0]; });
  const std::string what = begun(same ? said_of(settings[0], praise) : said_of(c, praise));
  if (settings.size() == 2) return what + " in both settings";
  return fmt::format("{} in all {} settings", what, settings.size());
}

// Of one panel, by x.
std::string along_the_axis(const std::map<double, Leaders>& at, Praise praise,
                           const std::string& x_name) {
  std::vector<Leaders> all;
  std::vector<double> xs;
  std::vector<std::size_t> changes;  // where others lead than before
  for (const auto& [x, leaders] : at) {
    if (!all.empty() && all.back() != leaders) changes.push_back(all.size());
    all.push_back(leaders);
    xs.push_back(x);
  }
  const Champions c = champions(all);
  if (c.times == all.size() && all.size() > 1 && (c.always_best || changes.size() != 1))
    return fmt::format("{} from {} to {} {}",
                       begun(changes.empty() ? said_of(all[0], praise) : said_of(c, praise)),
                       short_count(xs.front()), short_count(xs.back()), x_name);
  if (changes.size() != 1) return most_often(all, praise);
  const std::size_t change = changes[0];
  const std::string before = said_of(all.front(), praise), after = said_of(all.back(), praise);
  if (change + 1 < all.size())
    return fmt::format("{} from {} {} on; below, {}", begun(after), short_count(xs[change]), x_name,
                       before);
  return fmt::format("{} {} {} {}; at {}, {}", begun(before), change > 1 ? "up to" : "at",
                     short_count(xs[change - 1]), x_name, short_count(xs[change]), after);
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
  const Praise praise = praise_of(plot.y);
  std::vector<Leaders> all;
  std::map<double, Leaders> leaders;  // of the last panel
  for (const PlotPanel& panel : plot.panels) {
    std::map<double, Candidates> at;
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points)
        if (!p.hollow) at[p.x].add(line.name, p.y);
    leaders.clear();
    for (const auto& [x, candidates] : at)
      all.push_back(leaders[x] = candidates.leaders(praise.near, is_better_low(plot.y)));
  }
  if (all.empty()) return "Nothing fits in the memory of a device";
  return plot.panels.size() == 1 ? along_the_axis(leaders, praise, plot.x_name)
                                 : most_often(all, praise);
}

std::string title_of(const BestMap& map) {
  std::vector<Leaders> all;
  for (const BestPanel& panel : map.panels)
    for (const BestCell& c : panel.cells) {
      Names names = c.near.empty() ? Names{c.best} : c.near;
      const bool equal = names.size() == 1;
      all.push_back({std::move(names), equal});
    }
  return most_often(all, kFastest);
}

std::string front_title(const Plot& plot) {
  std::vector<Leaders> fastest, smallest;
  for (const PlotPanel& panel : plot.panels) {
    Candidates time, memory;
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points) {
        if (p.hollow) continue;
        time.add(line.name, p.y);
        memory.add(line.name, p.x);
      }
    if (time.all.empty()) continue;
    fastest.push_back(time.leaders(kFastest.near));
    smallest.push_back(memory.leaders(kSmallest.near));
  }
  if (fastest.empty()) return "Nothing fits in the memory of a device";
  if (fastest.size() > 1) return most_often(fastest, kFastest);
  if (fastest[0] != smallest[0])
    return fmt::format("{}{} {}", said_of(fastest[0], kFastest), fastest[0].equal ? "," : ";",
                       said_of(smallest[0], kSmallest));
  return said_of(fastest[0], {"is fastest and needs the least memory",
                              "are fastest and need the least memory", ""});
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
  std::vector<Leaders> winners;
  for (const TimePanel& panel : bars.panels) {
    Candidates time;
    for (const TimeBar& b : panel.bars) time.add(b.name, b.total());
    winners.push_back(time.leaders(kFastest.near));
  }
  const std::vector<TimeBar>& first = bars.panels[0].bars;
  if (bars.panels.size() == 1 && first.size() == 1)
    return fmt::format("{} attends for {} of its time", first[0].name, share(first[0]));
  if (bars.panels.size() > 1 || winners[0].names.size() > 1) return most_often(winners, kFastest);
  const auto [least, most] =
      std::minmax_element(first.begin(), first.end(),
                          [](const TimeBar& a, const TimeBar& b) { return a.total() < b.total(); });
  return fmt::format("{} is fastest: it attends for {} of its time; {}, the slowest, for {}",
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
