// Charts of points: time against memory, and predicted against published.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "frame.hpp"
#include "ringsched/scheduler/words.hpp"
#include "titles.hpp"

namespace ringsched {

namespace {

constexpr double kPointMarker = 2.6;
constexpr std::size_t kManyPoints = 60, kFewPoints = 20;  // they are small, or large

std::vector<std::string> names_of(const Plot& plot) {
  std::vector<std::string> names;
  for (const PlotPanel& panel : plot.panels)
    for (const PlotLine& line : panel.lines)
      if (std::find(names.begin(), names.end(), line.name) == names.end())
        names.push_back(line.name);
  return names;
}

std::size_t index(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<std::string> panels_of(const Plot& plot) {
  std::vector<std::string> names;
  for (const PlotPanel& panel : plot.panels) names.push_back(panel.name);
  return names;
}

// Words beside points, at free places.
class Beside {
 public:
  Beside(const PlotFrame& f, std::vector<Shape>& out) : f_(f), out_(out) {}
  void keep_free(Point at) {
    marks_.push_back(at);
    Box b;
    b.x = at.x - kPointMarker - 1;
    b.y = at.y - kPointMarker - 1;
    b.width = b.height = 2 * kPointMarker + 2;
    taken_.push_back(b);
  }
  // Of a line that goes along the axes.
  void keep_free(Point a, Point b) {
    Box box;
    box.x = std::min(a.x, b.x) - 0.5;
    box.y = std::min(a.y, b.y) - 0.5;
    box.width = std::abs(a.x - b.x) + 1;
    box.height = std::abs(a.y - b.y) + 1;
    taken_.push_back(box);
  }
  // False if there is no place where a reader could tell that the words are of this point.
  bool name(Point at, const std::string& text, Colour colour) {
    for (double away = kPointMarker + 2.5; away < 70; away += 5)
      for (const auto& [dx, dy, anchor] :
           {Side{1, 0, Anchor::Start}, Side{-1, 0, Anchor::End}, Side{0.7, -0.9, Anchor::Start},
            Side{0.7, 1.1, Anchor::Start}, Side{-0.7, -0.9, Anchor::End},
            Side{-0.7, 1.1, Anchor::End}, Side{0, -1.2, Anchor::Middle},
            Side{0, 1.4, Anchor::Middle}}) {
        const Point to{at.x + dx * away, at.y + dy * away};
        const Label label{to.x, to.y + kPlotWords * 0.34, kPlotWords, colour, anchor, false, text};
        const Box b = bounds(label);
        if (b.x < f_.left || b.x + b.width > f_.right() + 2 || b.y < f_.top - 4 ||
            b.y + b.height > f_.bottom() - 1 ||
            std::any_of(taken_.begin(), taken_.end(),
                        [&](const Box& other) { return overlap(b, other); }))
          continue;
        const bool led = away > kPointMarker + 5;
        const Point end{at.x + dx * (away - 2), at.y + dy * (away - 2)};
        if (led ? !is_clear(at, end) : !is_nearest(at, b)) continue;
        if (led) {
          out_.emplace_back(Stroke{{at, end}, mixed(ink::grey, ink::white, 0.4), 0.5});
          leaders_.emplace_back(at, end);
        }
        out_.emplace_back(label);
        taken_.push_back(b);
        words_.push_back(b);
        return true;
      }
    return false;
  }

 private:
  struct Side {
    double x, y;
    Anchor anchor;
  };
  static double distance(Point p, const Box& b) {
    return std::hypot(std::max({b.x - p.x, 0.0, p.x - b.x - b.width}),
                      std::max({b.y - p.y, 0.0, p.y - b.y - b.height}));
  }
  bool is_nearest(Point at, const Box& words) const {
    return std::none_of(marks_.begin(), marks_.end(), [&](Point other) {
      return std::hypot(other.x - at.x, other.y - at.y) > 0.1 &&
             distance(other, words) < distance(at, words) + 2.5;
    });
  }
  // Does a line to the words pass no other mark, no words and no other such line?
  bool is_clear(Point from, Point to) const {
    for (int i = 1; i <= 20; ++i) {
      const double t = i / 20.0;
      const Point p{from.x + (to.x - from.x) * t, from.y + (to.y - from.y) * t};
      for (const Point mark : marks_)
        if (std::hypot(mark.x - from.x, mark.y - from.y) > 0.1 &&
            std::hypot(mark.x - p.x, mark.y - p.y) < kPointMarker + 1.5)
          return false;
      for (const Box& b : words_)
        if (distance(p, b) < 0.5) return false;
      for (const auto& [a, b] : leaders_)
        for (int k = 0; k <= 10; ++k)
          if (std::hypot(a.x + (b.x - a.x) * k / 10 - p.x, a.y + (b.y - a.y) * k / 10 - p.y) < 2.5)
            return false;
    }
    return true;
  }

  const PlotFrame& f_;
  std::vector<Shape>& out_;
  std::vector<Box> taken_, words_;
  std::vector<Point> marks_;
  std::vector<std::pair<Point, Point>> leaders_;
};

struct Marked {
  const PlotPoint* point;
  const std::string* name;
  bool best = false;  // on the front
};

// By x; the front has those that no point to their left, or at the same place, is below.
std::vector<Marked> marked(const PlotPanel& panel) {
  std::vector<Marked> all;
  for (const PlotLine& line : panel.lines)
    for (const PlotPoint& p : line.points) all.push_back({&p, &line.name});
  std::stable_sort(all.begin(), all.end(), [](const Marked& a, const Marked& b) {
    return a.point->x != b.point->x ? a.point->x < b.point->x : a.point->y < b.point->y;
  });
  double least = std::numeric_limits<double>::infinity(), at = 0;
  for (Marked& m : all) {
    m.best = m.point->y < least || (m.point->y == least && m.point->x == at);
    if (m.best) at = m.point->x;
    least = std::min(least, m.point->y);
  }
  return all;
}

}  // namespace

Picture front_plot(const Plot& plot, const Page& page) {
  const std::vector<std::string> names = names_of(plot);
  const std::vector<LineStyle> styles = line_styles(names);
  std::vector<ValueRange> x, y;
  bool hollow = false;
  for (const PlotPanel& panel : plot.panels) {
    x.emplace_back();
    y.emplace_back();
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points) {
        x.back().add(p.x);
        y.back().add(p.y);
        hollow = hollow || p.hollow;
      }
  }
  x = shared_ranges(std::move(x));
  y = shared_ranges(std::move(y));
  PlotSheet s{.page = page,
              .heading = plot.heading.empty() ? front_title(plot) : plot.heading,
              .subject = plot.subject,
              .x_name = plot.x_name,
              .y_name = plot.y_name,
              .panels = panels_of(plot),
              .right = 8,
              .key = {},
              .notes = {"Grey line: the front. No other schedule is better in both."},
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  if (hollow) s.notes.emplace_back("Hollow: does not fit in a device's memory.");
  s.x_axis = [&](std::size_t i, double room) {
    return PlotAxis::around(x[i].low, x[i].high, plot.x, room, 50);
  };
  s.y_axis = [&](std::size_t i, double room) {
    return PlotAxis::around(y[i].low, y[i].high, plot.y, room, 30);
  };
  // Those that some panel has no room to name are in the key below.
  std::set<std::size_t> unnamed;
  s.draw = [&](std::size_t i, const PlotFrame& f, std::vector<Shape>& out) {
    const std::vector<Marked> all = marked(plot.panels[i]);
    std::vector<Point> front;
    Beside words(f, out);
    for (const Marked& m : all) {
      const Point at = f.at(m.point->x, m.point->y);
      words.keep_free(at);
      if (!m.best) continue;
      front.push_back(front.empty() ? Point{at.x, f.top} : Point{at.x, front.back().y});
      front.push_back(at);
    }
    front.push_back({f.right(), front.back().y});
    for (std::size_t k = 1; k < front.size(); ++k) words.keep_free(front[k - 1], front[k]);
    out.emplace_back(Stroke{std::move(front), mixed(ink::grey, ink::white, 0.35), 1});
    for (const Marked& m : all)
      draw_marker(f.at(m.point->x, m.point->y), kPointMarker, styles[index(names, *m.name)],
                  m.point->hollow, m.point->about, out);
    // Marks that hide each other share their words.
    struct Named {
      Point at;
      std::string names;
      bool best;
      std::vector<std::size_t> of;
    };
    std::vector<Named> named;
    for (const Marked& m : all) {
      const Point at = f.at(m.point->x, m.point->y);
      const auto same = std::find_if(named.begin(), named.end(), [&](const Named& n) {
        return std::hypot(n.at.x - at.x, n.at.y - at.y) < kPointMarker;
      });
      if (same == named.end()) {
        named.push_back({at, *m.name, m.best, {index(names, *m.name)}});
        continue;
      }
      same->names += ", " + *m.name;
      same->best = same->best || m.best;
      same->of.push_back(index(names, *m.name));
    }
    for (const bool best : {true, false})
      for (const Named& n : named)
        if (n.best == best && !words.name(n.at, shortened(n.names, kPlotWords, f.width * 0.5),
                                          n.best ? ink::black : ink::grey))
          unnamed.insert(n.of.begin(), n.of.end());
    s.key.clear();
    for (const std::size_t k : unnamed)
      s.key.push_back({names[k], [style = styles[k]](const Box& b, std::vector<Shape>& icon) {
                         draw_marker({b.x + b.width / 2, b.y + b.height / 2}, kPointMarker, style,
                                     false, {}, icon);
                       }});
  };
  return drawn(s);
}

namespace {

constexpr double kNarrowBand = 5;  // along both axes together
constexpr Colour kWhisker = {0xa0, 0xa0, 0xa0};

// Between two lines, which are drawn as well: on logarithmic axes they are close to each other.
void draw_band(std::vector<Point> above, std::vector<Point> below, std::vector<Shape>& out) {
  std::vector<Point> around = above;
  around.insert(around.end(), below.rbegin(), below.rend());
  out.emplace_back(Area{std::move(around), ink::grey, 0.25});
  for (std::vector<Point>* line : {&above, &below})
    out.emplace_back(Stroke{std::move(*line), ink::black, 0.4});
}

bool has_intervals(const Plot& plot) {
  for (const PlotPanel& panel : plot.panels)
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points)
        if (p.low < p.high) return true;
  return false;
}

double top_of(const PlotPoint& p) { return std::max(p.y, p.low < p.high ? p.high : p.y); }

// Of an axis for both. A few predictions that are so far above all others that these would share
// less than some of it are not on it.
ValueRange agreement_range(const PlotPanel& panel) {
  constexpr double kWorthIt = 0.6;        // of its length
  constexpr std::size_t kOneOfMany = 20;  // points: of fewer, one may be left out
  std::vector<const PlotPoint*> points;
  ValueRange published;
  for (const PlotLine& line : panel.lines)
    for (const PlotPoint& p : line.points) {
      points.push_back(&p);
      published.add(p.x);
    }
  std::ranges::stable_sort(points, {}, [](const PlotPoint* p) { return top_of(*p); });
  const auto range_of = [&](std::size_t n) {
    ValueRange range = published;
    for (std::size_t i = 0; i < n; ++i) {
      range.add(points[i]->low < points[i]->high ? points[i]->low : points[i]->y);
      range.add(points[i]->y);
      range.add(top_of(*points[i]));
    }
    return range;
  };
  const ValueRange all = range_of(points.size());
  const auto length = [](const ValueRange& r) { return std::log(r.high / r.low); };
  const std::size_t most = points.size() < 4 ? 0 : 1 + points.size() / kOneOfMany;
  for (std::size_t without = 1; without <= most; ++without) {
    const ValueRange rest = range_of(points.size() - without);
    if (length(all) > std::log(12) && length(rest) < kWorthIt * length(all)) return rest;
  }
  return all;
}

// At the upper edge, with an arrow that points to where it is, and its value.
void draw_beyond(const PlotPoint& p, const LineStyle& style, const PlotFrame& f,
                 std::vector<Shape>& out) {
  constexpr double kRadius = 3.2;
  const Point at{f.at(p.x, f.y.low()).x, f.top + 16};
  out.emplace_back(Stroke{{{at.x, at.y - kRadius}, {at.x, f.top}}, ink::black, 1, false, true});
  draw_marker(at, kRadius, style, p.hollow, p.about, out);
  const std::string text =
      p.y < 1000 ? fmt::format("{:.3g}", p.y) : grouped(static_cast<std::int64_t>(p.y + 0.5));
  const bool left = at.x + 6 + text_width(text, kPlotWords) > f.right();
  const Label value{at.x + (left ? -6 : 6),
                    at.y + kPlotWords * 0.34,
                    kPlotWords,
                    ink::black,
                    left ? Anchor::End : Anchor::Start,
                    false,
                    text};
  Box behind = bounds(value);
  behind.fill = ink::white;
  out.emplace_back(std::move(behind));
  out.emplace_back(value);
}

}  // namespace

Picture agreement_plot(const Plot& plot, double tolerance, const Page& page) {
  const std::vector<std::string> names = names_of(plot);
  const std::vector<LineStyle> styles = group_styles(names.size());
  PlotSheet s{.page = page,
              .heading = plot.heading.empty() ? agreement_title(plot, tolerance) : plot.heading,
              .subject = plot.subject,
              .x_name = plot.x_name,
              .y_name = plot.y_name,
              .panels = panels_of(plot),
              .right = 8,
              .square = true,
              .key = {},
              .notes = plot.notes,
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  std::vector<ValueRange> ranges;
  bool beyond = false;
  for (const PlotPanel& panel : plot.panels) {
    ranges.push_back(agreement_range(panel));
    for (const PlotLine& line : panel.lines)
      for (const PlotPoint& p : line.points) beyond = beyond || p.y > ranges.back().high;
  }
  const auto axis = [&](std::size_t i, double room) {
    const ValueRange& all = ranges[i];
    return PlotAxis::over(all.low, all.high, plot.y, room, 36);
  };
  s.x_axis = s.y_axis = axis;
  for (std::size_t i = 0; i < names.size(); ++i)
    s.key.push_back({names[i], [style = styles[i]](const Box& b, std::vector<Shape>& out) {
                       draw_marker({b.x + b.width / 2, b.y + b.height / 2}, kPointMarker, style,
                                   false, {}, out);
                     }});
  s.key.push_back(
      {fmt::format("within {:.0f}%", 100 * tolerance), [](const Box& b, std::vector<Shape>& out) {
         draw_band({{b.x, b.y}, {b.x + b.width, b.y}},
                   {{b.x, b.y + b.height}, {b.x + b.width, b.y + b.height}}, out);
       }});
  if (has_intervals(plot))
    s.key.push_back(
        {"80% interval", [](const Box& b, std::vector<Shape>& out) {
           const double x = b.x + b.width / 2;
           out.emplace_back(Stroke{{{x, b.y - 1}, {x, b.y + b.height + 1}}, kWhisker, 0.7});
         }});
  if (beyond)
    s.key.push_back({"beyond the axis, with its value", [](const Box& b, std::vector<Shape>& out) {
                       const double x = b.x + b.width / 2;
                       out.emplace_back(Stroke{
                           {{x, b.y + b.height + 1}, {x, b.y - 2}}, ink::black, 1, false, true});
                     }});
  s.draw = [&](std::size_t i, const PlotFrame& f, std::vector<Shape>& out) {
    std::size_t points = 0;
    for (const PlotLine& line : plot.panels[i].lines) points += line.points.size();
    const double radius = points > kManyPoints ? 1.7 : points > kFewPoints ? kPointMarker : 3.2;
    const double low = f.x.low(), high = f.x.high();
    // Where the band's edges meet those of the frame.
    const double first = f.x.logarithmic() ? low : 0;
    const auto edge = [&](double times) {
      std::vector<Point> line;
      for (const double x : {std::max(first, low), high}) {
        const double y = std::clamp(x * times, low, high);
        line.push_back(f.at(y / times, y));
      }
      return line;
    };
    const std::vector<Point> above = edge(1 + tolerance), below = edge(1 - tolerance);
    draw_band(above, below, out);
    // In a narrow band it would hide the paper between the edges.
    if (below.back().x + below.back().y - above.back().x - above.back().y > kNarrowBand)
      out.emplace_back(Stroke{{f.at(low, low), f.at(high, high)}, ink::grey, 0.8});
    for (const PlotLine& line : plot.panels[i].lines)
      for (const PlotPoint& p : line.points)
        if (p.low < p.high && p.y <= ranges[i].high)
          out.emplace_back(Stroke{{f.at(p.x, p.low), f.at(p.x, p.high)}, kWhisker, 0.5});
    for (const PlotLine& line : plot.panels[i].lines)
      for (const PlotPoint& p : line.points) {
        const LineStyle& style = styles[index(names, line.name)];
        if (p.y > ranges[i].high) {
          draw_beyond(p, style, f, out);
        } else {
          draw_marker(f.at(p.x, p.y), radius, style, p.hollow, p.about, out);
        }
      }
  };
  return drawn(s);
}

}  // namespace ringsched
