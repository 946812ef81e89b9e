// A line for each schedule, named at its end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frame.hpp"
#include "titles.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostIntervals = 4;  // more lie over each other
constexpr double kLineMarker = 2.3;

class LinePlot {
 public:
  LinePlot(const Plot& plot, const Page& page) : plot_(plot), page_(page) {
    for (const PlotPanel& panel : plot.panels)
      for (const PlotLine& line : panel.lines)
        if (std::find(names_.begin(), names_.end(), line.name) == names_.end())
          names_.push_back(line.name);
    styles_ = line_styles(names_);
    for (const PlotPanel& panel : plot.panels)
      for (const PlotLine& line : panel.lines)
        for (const PlotPoint& p : line.points) {
          xs_.push_back(p.x);
          y_.add(p.y);
          hollow_ = hollow_ || p.hollow;
          if (p.low == p.high) continue;
          unbanded_ = unbanded_ || !bands(panel);
          if (!bands(panel)) continue;
          y_.add(p.low);
          y_.add(p.high);
          banded_ = true;
        }
    if (plot.ideal)
      for (const double x : xs_) y_.add(x);
  }

  Picture draw() {
    const double width = page_.fixed() ? page_.units() : 560;
    const double most = width * (plot_.panels.size() > 1 && width > 500 ? 0.2 : 0.32);
    double widest = 0;
    for (std::string& name : names_) {
      labels_.push_back(shortened(name, kPlotWords, most));
      widest = std::max(widest, text_width(labels_.back(), kPlotWords));
    }
    if (plot_.ideal) widest = std::max(widest, text_width("ideal", kPlotWords));
    std::size_t lines = 0;
    for (const PlotPanel& panel : plot_.panels) lines = std::max(lines, panel.lines.size());
    PlotSheet s{.page = page_,
                .heading = plot_.heading.empty() ? title_of(plot_) : plot_.heading,
                .subject = plot_.subject,
                .x_name = plot_.x_name,
                .y_name = plot_.y_name,
                .panels = {},
                .right = widest + 23,
                .least_height = kPlotLine * static_cast<double>(lines + (plot_.ideal ? 1 : 0)),
                .key = {},
                .notes = {},
                .x_axis = {},
                .y_axis = {},
                .draw = {}};
    for (const PlotPanel& panel : plot_.panels) s.panels.push_back(panel.name);
    if (unbanded_)
      s.notes.push_back(fmt::format("No intervals with more than {} lines.", kMostIntervals));
    if (banded_) s.notes.emplace_back("Band: where the result lies in 80% of cases.");
    if (hollow_) s.notes.emplace_back("Hollow: does not fit in a device's memory.");
    s.x_axis = [&](std::size_t, double room) { return PlotAxis::at(xs_, plot_.x, room); };
    s.y_axis = [&](std::size_t, double room) {
      return PlotAxis::over(y_.low, y_.high, plot_.y, room, 30);
    };
    s.draw = [&](std::size_t i, const PlotFrame& f, std::vector<Shape>& out) {
      draw_panel(plot_.panels[i], f, out);
    };
    return drawn(s);
  }

 private:
  static bool bands(const PlotPanel& panel) { return panel.lines.size() <= kMostIntervals; }
  std::size_t index(const PlotLine& line) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), line.name) -
                                    names_.begin());
  }

  void draw_panel(const PlotPanel& panel, const PlotFrame& f, std::vector<Shape>& out) const {
    if (bands(panel))
      for (const PlotLine& line : panel.lines) draw_band(line, f, out);
    Point ideal_end{};
    if (plot_.ideal) {
      const Point from = f.at(f.x.low(), f.x.low()), to = f.at(f.x.high(), f.x.high());
      out.emplace_back(Stroke{{from, to}, ink::grey, 0.8, true, false});
      ideal_end = to;
    }
    for (const PlotLine& line : panel.lines) {
      const LineStyle& style = styles_[index(line)];
      std::vector<Point> path;
      for (const PlotPoint& p : line.points) path.push_back(f.at(p.x, p.y));
      if (path.size() > 1)
        out.emplace_back(Stroke{std::move(path), style.colour, 1.3, style.dashed, false});
    }
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points)
        draw_marker(f.at(p.x, p.y), kLineMarker, styles_[index(line)], p.hollow, p.about, out);
    name_lines(panel, f, ideal_end, out);
  }

  void draw_band(const PlotLine& line, const PlotFrame& f, std::vector<Shape>& out) const {
    std::vector<Point> around, back;
    for (const PlotPoint& p : line.points) {
      if (p.low == p.high) continue;
      around.push_back(f.at(p.x, p.low));
      back.push_back(f.at(p.x, p.high));
    }
    if (around.size() < 2) return;
    around.insert(around.end(), back.rbegin(), back.rend());
    out.emplace_back(Area{std::move(around), styles_[index(line)].colour, 0.15});
  }

  // At the right, as close to the ends of the lines as they can be without overlap.
  void name_lines(const PlotPanel& panel, const PlotFrame& f, Point ideal_end,
                  std::vector<Shape>& out) const {
    struct End {
      Point at;
      const PlotLine* line;  // none: the ideal
    };
    std::vector<End> ends;
    for (const PlotLine& line : panel.lines)
      ends.push_back({f.at(line.points.back().x, line.points.back().y), &line});
    if (plot_.ideal) ends.push_back({ideal_end, nullptr});
    std::stable_sort(ends.begin(), ends.end(),
                     [](const End& a, const End& b) { return a.at.y < b.at.y; });
    std::vector<double> wanted;
    for (const End& e : ends) wanted.push_back(e.at.y);
    const std::vector<double> y = spread_apart(wanted, kPlotLine - 1, f.top, f.bottom());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const LineStyle style = ends[i].line ? styles_[index(*ends[i].line)] : LineStyle{ink::grey};
      const Point from{ends[i].at.x + kLineMarker + 1, ends[i].at.y};
      out.emplace_back(
          Stroke{{from, {f.right() + 8, y[i]}}, mixed(style.colour, ink::white, 0.4), 0.5});
      if (ends[i].line) draw_marker({f.right() + 12, y[i]}, kLineMarker, style, false, {}, out);
      out.emplace_back(Label{f.right() + 17, y[i] + kPlotWords * 0.34, kPlotWords, ink::black,
                             Anchor::Start, false,
                             ends[i].line ? labels_[index(*ends[i].line)] : "ideal"});
    }
  }

  const Plot& plot_;
  const Page& page_;
  std::vector<std::string> names_, labels_;
  std::vector<LineStyle> styles_;
  std::vector<double> xs_;
  ValueRange y_;
  bool hollow_ = false, banded_ = false, unbanded_ = false;
};

}  // namespace

Picture line_plot(const Plot& plot, const Page& page) { return LinePlot(plot, page).draw(); }

}  // namespace ringsched
