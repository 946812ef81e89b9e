// How much the makespan differs from run to run: a histogram for each file, on one axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frame.hpp"
#include "titles.hpp"

namespace ringsched {

namespace {

constexpr double kRowTall = 34, kAlone = 90, kGap = 8;

}  // namespace

Picture runs_plot(const RunsPlot& plot, const Page& page) {
  const double width = page.fixed() ? page.units() : 560;
  const double tall = plot.rows.size() > 1 ? kRowTall : kAlone;
  ValueRange all;
  double widest = 0;
  std::size_t most = 0;
  for (const RunsRow& row : plot.rows) {
    for (const double t : row.times) all.add(t);
    widest =
        std::max(widest, text_width(shortened(row.name, kPlotWords, width * 0.28), kPlotWords));
    most = std::max(most, row.times.size());
  }
  const auto bins =
      static_cast<std::size_t>(std::clamp(2 * std::sqrt(static_cast<double>(most)), 8.0, 48.0));
  PlotSheet s{.page = page,
              .heading = plot.heading.empty() ? title_of(plot) : plot.heading,
              .subject = plot.subject,
              .x_name = "makespan",
              .y_name = {},
              .panels = {""},
              .right = 10,
              .left = widest + 6,
              .height = (tall + kGap) * static_cast<double>(plot.rows.size()),
              .key = {},
              .notes = {"Bars: how many runs. Black: the median and the middle 90%."},
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  s.x_axis = [&](std::size_t, double room) {
    return PlotAxis::around(all.low, all.high, plot.unit, room, 44);
  };
  s.y_axis = [](std::size_t, double) { return PlotAxis::of_cells({0}, 1e9, false); };
  s.draw = [&](std::size_t, const PlotFrame& f, std::vector<Shape>& out) {
    const double step = (all.high - all.low) / static_cast<double>(bins);
    double y = f.top;
    for (const RunsRow& row : plot.rows) {
      std::vector<double> sorted = row.times;
      std::sort(sorted.begin(), sorted.end());
      std::vector<std::size_t> count(bins);
      for (const double t : sorted)
        ++count[step > 0 ? std::min(bins - 1, static_cast<std::size_t>((t - all.low) / step)) : 0];
      const std::size_t top = *std::max_element(count.begin(), count.end());
      const double base = y + tall - 6;
      for (std::size_t i = 0; i < bins; ++i) {
        if (count[i] == 0) continue;
        const double from = all.low + step * static_cast<double>(i);
        const double x0 = f.at(from, 0).x, x1 = f.at(from + step, 0).x;
        const double high = (tall - 8) * static_cast<double>(count[i]) / static_cast<double>(top);
        out.emplace_back(Box{x0, base - high, std::max(1.0, x1 - x0 - 0.4), high, ink::own,
                             Hatch::None, std::nullopt, 1,
                             fmt::format("{}: {} of {} runs", row.name, count[i], sorted.size())});
      }
      const auto line = [&](double x0, double y0, double x1, double y1, double wide) {
        out.emplace_back(Stroke{{{x0, y0}, {x1, y1}}, ink::black, wide, false, false});
      };
      const double low = f.at(at_share(sorted, 0.05), 0).x,
                   high = f.at(at_share(sorted, 0.95), 0).x,
                   middle = f.at(at_share(sorted, 0.5), 0).x;
      line(low, base + 3, high, base + 3, 1.2);
      line(middle, base - 1, middle, base + 6, 2.4);
      const std::string median =
          fmt::format("median {:.4g} {}", f.x.in_unit(at_share(sorted, 0.5)), f.x.unit());
      const bool room = high + 5 + text_width(median, kPlotWords) < f.right();
      out.emplace_back(Label{room ? high + 5 : low - 5, base + 9, kPlotWords, ink::black,
                             room ? Anchor::Start : Anchor::End, false, median});
      out.emplace_back(Label{f.left - 4, base, kPlotWords, ink::black, Anchor::End, false,
                             shortened(row.name, kPlotWords, width * 0.28)});
      y += tall + kGap;
    }
  };
  return drawn(s);
}

}  // namespace ringsched
