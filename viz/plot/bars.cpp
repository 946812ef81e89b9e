// Charts of bars: where time goes, and what changes would do to it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "frame.hpp"
#include "titles.hpp"

namespace ringsched {

namespace {

constexpr double kBarTall = 11, kBarPitch = 17;  // of a bar, and from one to the next
constexpr double kAbove = 2;                     // of that, above the bar

enum class BarPart : std::uint8_t { Attend, Overhead, Host, Wait, Done, Exposed, Bound, Interval };

struct PartLook {
  BarPart part;
  const char* name;
};
constexpr PartLook kParts[] = {{BarPart::Attend, "attend"},
                               {BarPart::Overhead, "overhead"},
                               {BarPart::Host, "wait for the host"},
                               {BarPart::Wait, "wait"},
                               {BarPart::Done, "done"},
                               {BarPart::Exposed, "exposed communication"},
                               {BarPart::Bound, "lower bound"},
                               {BarPart::Interval, "80% interval"}};

double value_of(const TimeBar& b, BarPart part) {
  switch (part) {
    case BarPart::Attend:
      return b.attending;
    case BarPart::Overhead:
      return b.overhead;
    case BarPart::Host:
      return b.waiting_for_host;
    case BarPart::Wait:
      return b.waiting;
    case BarPart::Done:
      return b.done;
    case BarPart::Exposed:
      return b.exposed;
    case BarPart::Bound:
      return b.bound;
    case BarPart::Interval:
      break;
  }
  return b.high - b.low;
}

void draw_interval(const Box& b, std::vector<Shape>& out) {
  const double right = b.x + b.width, middle = b.y + b.height / 2;
  const auto line = [&](Point from, Point to) {
    out.emplace_back(Stroke{{from, to}, ink::black, 0.9});
  };
  line({b.x, middle}, {right, middle});
  for (const double x : {b.x, right}) line({x, middle - 1.6}, {x, middle + 1.6});
}

void draw_part(BarPart part, Box b, std::vector<Shape>& out) {
  switch (part) {
    case BarPart::Attend:
      b.fill = ink::own;
      break;
    case BarPart::Overhead:
      b.fill = ink::overhead;
      break;
    case BarPart::Host:
      b.fill = Colour{0xd6, 0x96, 0xbe};
      b.hatch = Hatch::Diagonal;
      break;
    case BarPart::Wait:
      b.fill = ink::waiting;
      b.hatch = Hatch::Dots;
      break;
    case BarPart::Done:
      b.fill = ink::white;
      b.outline = ink::rule;
      b.outline_width = 0.7;
      break;
    case BarPart::Exposed:
      b.y += b.height - 3.5;
      b.height = 3.5;
      b.fill = ink::helping;
      break;
    case BarPart::Bound:
      out.emplace_back(Stroke{{{b.x, b.y - 2}, {b.x, b.y + b.height + 2}}, ink::black, 1.4});
      return;
    case BarPart::Interval:
      draw_interval(b, out);
      return;
  }
  if (b.width > 0) out.emplace_back(std::move(b));
}

std::string in_unit(double value, const PlotAxis& axis) {
  const double x = axis.in_unit(value);
  return fmt::format("{:.{}f}{}{}", x,
                     std::abs(x) < 9.995   ? 2
                     : std::abs(x) < 99.95 ? 1
                                           : 0,
                     axis.unit().empty() ? "" : " ", axis.unit());
}

// How far it goes to the right, with its bound and its interval.
double reach_of(const TimeBar& b) { return std::max({b.total(), b.bound, b.high}); }

Box bar_at(const PlotFrame& f, double from, double to, std::size_t row) {
  const Point a = f.at(from, 0), b = f.at(to, 0);
  return {std::min(a.x, b.x),
          f.top + kBarPitch * static_cast<double>(row) + kAbove,
          std::abs(b.x - a.x),
          kBarTall,
          {},
          Hatch::None,
          {},
          1,
          {}};
}

PlotAxis rows_axis() { return PlotAxis::of_cells({0}, 1e9, false); }

// Names at the left of bars.
double widest_of(const std::vector<std::string>& names) {
  double widest = 0;
  for (const std::string& n : names) widest = std::max(widest, text_width(n, kPlotWords));
  return widest;
}

void name_row(const PlotFrame& f, std::size_t row, const std::string& name,
              std::vector<Shape>& out) {
  out.emplace_back(Label{f.left - 4, f.top + kBarPitch * (static_cast<double>(row) + 0.5) + 3.2,
                         kPlotWords, ink::black, Anchor::End, false, name});
}

}  // namespace

namespace {

TimeBars with_short_names(TimeBars bars) {
  std::vector<std::string> names;
  for (const TimePanel& panel : bars.panels)
    for (const TimeBar& b : panel.bars) names.push_back(b.name);
  names = without_usual(names);
  auto name = names.begin();
  for (TimePanel& panel : bars.panels)
    for (TimeBar& b : panel.bars) b.name = *name++;
  return bars;
}

}  // namespace

Picture time_bars(const TimeBars& given, const Page& page) {
  const TimeBars bars = with_short_names(given);
  const double width = page.fixed() ? page.units() : 560;
  std::vector<ValueRange> times;
  std::vector<std::string> names;
  std::set<BarPart> seen;
  std::size_t rows = 0;
  for (const TimePanel& panel : bars.panels) {
    rows = std::max(rows, panel.bars.size());
    times.emplace_back().add(0);
    for (const TimeBar& b : panel.bars) {
      times.back().add(reach_of(b));
      names.push_back(shortened(b.name, kPlotWords, width * 0.28));
      for (const PartLook& look : kParts)
        if (value_of(b, look.part) > 0) seen.insert(look.part);
    }
  }
  PlotSheet s{.page = page,
              .heading = bars.heading.empty() ? title_of(bars) : bars.heading,
              .subject = bars.subject,
              .x_name = "time per worker",
              .y_name = {},
              .panels = {},
              .right = 44,
              .left = widest_of(names) + 6,
              .height = kBarPitch * static_cast<double>(rows),
              .key = {},
              .notes = {},
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  for (const TimePanel& panel : bars.panels) s.panels.push_back(panel.name);
  for (const PartLook& look : kParts)
    if (seen.contains(look.part))
      s.key.push_back({look.name, [part = look.part](Box b, std::vector<Shape>& out) {
                         if (part == BarPart::Bound) b.x += b.width / 2;
                         draw_part(part, b, out);
                       }});
  times = shared_ranges(std::move(times));
  for (std::size_t i = 0; i < bars.panels.size(); ++i)
    for (const TimeBar& b : bars.panels[i].bars)
      s.right = std::max(
          s.right,
          8 + text_width(in_unit(b.total(), PlotAxis::over(0, times[i].high, bars.unit, 100, 44)),
                         kPlotWords));
  s.x_axis = [&](std::size_t i, double room) {
    return PlotAxis::over(0, times[i].high, bars.unit, room, 44);
  };
  s.y_axis = [](std::size_t, double) { return rows_axis(); };
  s.draw = [&](std::size_t i, const PlotFrame& f, std::vector<Shape>& out) {
    std::size_t row = 0;
    for (const TimeBar& bar : bars.panels[i].bars) {
      name_row(f, row, shortened(bar.name, kPlotWords, width * 0.28), out);
      double at = 0;
      for (const BarPart part :
           {BarPart::Attend, BarPart::Overhead, BarPart::Host, BarPart::Wait, BarPart::Done}) {
        const double value = value_of(bar, part);
        Box b = bar_at(f, at, at + value, row);
        b.about = fmt::format("{}: {} {}", bar.name, kParts[static_cast<std::size_t>(part)].name,
                              in_unit(value, f.x));
        draw_part(part, b, out);
        at += value;
      }
      const double idle = bar.attending + bar.overhead;
      draw_part(BarPart::Exposed, bar_at(f, idle, idle + std::min(bar.exposed, at - idle), row),
                out);
      if (bar.bound > 0) draw_part(BarPart::Bound, bar_at(f, bar.bound, bar.bound, row), out);
      if (bar.low < bar.high) {
        Box whisker = bar_at(f, bar.low, bar.high, row);
        whisker.y += kBarTall / 2 + 2;  // just below the bar
        draw_part(BarPart::Interval, whisker, out);
      }
      const Box end = bar_at(f, 0, reach_of(bar), row);
      out.emplace_back(Label{end.x + end.width + 4, end.y + kBarTall / 2 + 3.2, kPlotWords,
                             ink::black, Anchor::Start, false, in_unit(at, f.x)});
      ++row;
    }
  };
  return drawn(s);
}

Picture tornado(const Tornado& t, const Page& page) {
  std::vector<std::pair<std::string, double>> changes = t.changes;
  std::stable_sort(changes.begin(), changes.end(), [&](const auto& a, const auto& b) {
    return std::abs(a.second - t.base) > std::abs(b.second - t.base);
  });
  std::vector<std::string> names;
  double low = t.base, high = t.base;
  for (const auto& [name, time] : changes) {
    names.push_back(shortened(name, kPlotWords, (page.fixed() ? page.units() : 560) * 0.35));
    low = std::min(low, time);
    high = std::max(high, time);
  }
  PlotSheet s{.page = page,
              .heading = t.heading.empty() ? title_of(t) : t.heading,
              .subject = t.subject,
              .x_name = "change of the makespan",
              .y_name = {},
              .panels = {""},
              .right = high > t.base ? 44.0 : 8.0,
              .left = widest_of(names) + 6,
              .height = kBarPitch * static_cast<double>(changes.size()),
              .key = {},
              .notes = {},
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  const auto share = [&](double time) { return time / t.base - 1; };
  s.x_axis = [&](std::size_t, double room) {
    // Room for the words at the end of the longest bar.
    const double words = low < t.base ? (share(high) - share(low)) * 40 / (room - 40) : 0;
    return PlotAxis::linear(share(low) - words, share(high), PlotUnit::Percent, room, 44);
  };
  s.y_axis = [](std::size_t, double) { return rows_axis(); };
  s.draw = [&](std::size_t, const PlotFrame& f, std::vector<Shape>& out) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const double exact = share(changes[i].second);
      const double change = std::abs(exact) < 5e-4 ? 0 : exact;  // no "-0.0%"
      name_row(f, i, names[i], out);
      Box b = bar_at(f, 0, change, i);
      b.fill = change <= 0 ? ink::own : ink::helping;
      const std::string text = change == 0  ? "0.0%"
                               : change < 1 ? fmt::format("{:+.1f}%", 100 * change)
                                            : fmt::format("{:.1f}x", 1 + change);
      b.about = fmt::format("{}: {}", changes[i].first, text);
      out.emplace_back(Label{change <= 0 ? b.x - 3 : b.x + b.width + 3, b.y + kBarTall / 2 + 3.2,
                             kPlotWords, ink::black, change <= 0 ? Anchor::End : Anchor::Start,
                             false, text});
      out.emplace_back(std::move(b));
    }
    out.emplace_back(Stroke{{f.at(0, f.y.low()), {f.at(0, 0).x, f.top}}, ink::black, 0.8});
  };
  return drawn(s);
}

}  // namespace ringsched
