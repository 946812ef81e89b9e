// Which schedule is fastest where: a cell for each setting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frame.hpp"
#include "titles.hpp"

namespace ringsched {

namespace {

class Best {
 public:
  Best(const BestMap& map, const Page& page) : map_(map), page_(page) {
    for (const BestPanel& panel : map.panels)
      for (const BestCell& c : panel.cells) {
        add(xs_, c.x);
        add(ys_, c.y);
        for (const std::string& name : {c.best, c.tie})
          if (!name.empty() && std::find(names_.begin(), names_.end(), name) == names_.end())
            names_.push_back(name);
      }
    std::sort(xs_.begin(), xs_.end());
    std::sort(ys_.begin(), ys_.end());
    for (const LineStyle& style : line_styles(names_))
      colours_.push_back(mixed(style.colour, ink::white, 0.45));
  }

  Picture draw() {
    PlotSheet s{.page = page_,
                .heading = map_.heading.empty() ? title_of(map_) : map_.heading,
                .subject = map_.subject,
                .x_name = map_.x_name,
                .y_name = map_.y_name,
                .panels = {},
                .right = 4,
                .height = static_cast<double>(ys_.size()) * 24,
                .grid = false,
                .key = {},
                .notes = {},
                .x_axis = {},
                .y_axis = {},
                .draw = {}};
    bool tied = false;
    for (const BestPanel& panel : map_.panels) {
      s.panels.push_back(panel.name);
      for (const BestCell& c : panel.cells) tied = tied || !c.tie.empty();
    }
    if (tied)
      s.notes.push_back(fmt::format("Two colours: a tie, the second is at most {:.0f}% slower.",
                                    100 * kNearlyAsFast));
    for (std::size_t i = 0; i < names_.size(); ++i)
      s.key.push_back({names_[i], [this, i](Box b, std::vector<Shape>& out) {
                         b.y -= 1;
                         b.height += 2;
                         b.fill = colours_[i];
                         out.emplace_back(b);
                         letter({b.x + b.width / 2, b.y + b.height / 2}, i, out);
                       }});
    // Every cell is as large as the others: axes count them.
    s.x_axis = [&](std::size_t, double room) { return PlotAxis::of_cells(xs_, room); };
    s.y_axis = [&](std::size_t, double) { return PlotAxis::of_cells(ys_, 1e9); };
    s.draw = [&](std::size_t i, const PlotFrame& f, std::vector<Shape>& out) {
      for (const BestCell& c : map_.panels[i].cells) draw_cell(c, f, out);
    };
    return drawn(s);
  }

 private:
  static void add(std::vector<double>& values, double x) {
    if (std::find(values.begin(), values.end(), x) == values.end()) values.push_back(x);
  }
  static double place(const std::vector<double>& values, double x) {
    return static_cast<double>(std::lower_bound(values.begin(), values.end(), x) - values.begin());
  }
  std::size_t index(const std::string& name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  // "A" for the first schedule: also in grey one can tell which.
  static std::string letter_of(std::size_t i) {
    return i < 26 ? std::string(1, static_cast<char>('A' + i)) : std::to_string(i + 1);
  }
  void letter(Point at, std::size_t i, std::vector<Shape>& out) const {
    out.emplace_back(Label{at.x, at.y + kPlotWords * 0.36, kPlotWords, ink::black, Anchor::Middle,
                           false, letter_of(i)});
  }

  void draw_cell(const BestCell& c, const PlotFrame& f, std::vector<Shape>& out) const {
    const double x = place(xs_, c.x), y = place(ys_, c.y);
    const Point low = f.at(x - 0.5, y - 0.5), high = f.at(x + 0.5, y + 0.5);
    const double gap = 0.4;
    Box b{low.x + gap,
          high.y + gap,
          high.x - low.x - 2 * gap,
          low.y - high.y - 2 * gap,
          colours_[index(c.best)],
          Hatch::None,
          {},
          1,
          c.about};
    const Point middle{b.x + b.width / 2, b.y + b.height / 2};
    out.emplace_back(b);
    if (c.tie.empty()) return letter(middle, index(c.best), out);
    out.emplace_back(
        Area{{{b.x + b.width, b.y}, {b.x + b.width, b.y + b.height}, {b.x, b.y + b.height}},
             colours_[index(c.tie)],
             1,
             c.about});
    letter({b.x + b.width * 0.3, b.y + b.height * 0.36}, index(c.best), out);
    letter({b.x + b.width * 0.7, b.y + b.height * 0.64}, index(c.tie), out);
  }

  const BestMap& map_;
  const Page& page_;
  std::vector<double> xs_, ys_;
  std::vector<std::string> names_;
  std::vector<Colour> colours_;
};

}  // namespace

Picture best_map(const BestMap& map, const Page& page) { return Best(map, page).draw(); }

}  // namespace ringsched
