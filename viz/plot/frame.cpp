#include "frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ringsched {

namespace {

constexpr double kUsualWidth = 560, kNarrow = 500;  // units
constexpr double kLeastHeight = 60;                 // of a panel's inside

class Sheet {
 public:
  // `lower`: by how much panels are lower than they could be. `wide`: up to four side by side.
  explicit Sheet(const PlotSheet& s, double lower = 0, bool wide = false)
      : s_(s), tight_(s.page.fixed() && !s.page.heading), lower_(lower) {
    p_.width = s.page.fixed() ? s.page.units() : kUsualWidth;
    const std::size_t n = s.panels.size();
    columns_ = n < 2 ? 1 : p_.width < kNarrow ? (s.square ? 2 : 1) : n == 3 || n > 4 ? 3 : 2;
    if (wide) columns_ = std::min<std::size_t>(n, 4);
  }

  std::size_t rows() const { return (s_.panels.size() + columns_ - 1) / columns_; }

  Picture draw() {
    p_.title = s_.page.title.empty() ? s_.heading + (s_.subject.empty() ? "" : ": " + s_.subject)
                                     : s_.page.title;
    for (std::size_t i = 0; i < s_.panels.size(); ++i)
      left_ = std::max(left_, left_of(s_.y_axis(i, 140)));
    double y = draw_head();
    for (std::size_t i = 0; i < s_.panels.size(); i += columns_) y = draw_row(i, y);
    if (s_.page.key && !s_.key.empty()) y = draw_key(y + 4);
    if (s_.page.legend)
      for (const std::string& note : s_.notes) y = grey_lines(note, y, kPlotWords);
    p_.height = y + (tight_ ? 3 : 10);
    return on_page(std::move(p_), s_.page);
  }

 private:
  double edge() const { return tight_ ? 2 : 12; }
  std::string fitted(const std::string& text, double size, bool bold = false) const {
    return shortened(text, bold ? size * 1.08 : size, p_.width - 2 * edge());
  }
  void words(double x, double y, double size, Colour colour, std::string text,
             Anchor anchor = Anchor::Start, bool bold = false) {
    p_.shapes.emplace_back(Label{x, y, size, colour, anchor, bold, std::move(text)});
  }

  double draw_head() {
    const double y = draw_heading();
    if (s_.warning.empty()) return y;
    return lines(s_.warning, y, kPlotWords) + (s_.page.heading ? 6 : 2);
  }
  // Words in bold, on as many lines as they need. Returns the baseline of the last one.
  double lines(std::string_view text, double y, double size) {
    for (const std::string& line : wrapped(text, size, p_.width - 2 * edge(), true))
      words(edge(), y += size * 1.2, size, ink::black, fitted(line, size, true), Anchor::Start,
            true);
    return y;
  }

  double grey_lines(std::string_view text, double y, double size) {
    for (const std::string& line : wrapped(text, size, p_.width - 2 * edge(), false))
      words(edge(), y += kPlotLine, size, ink::grey, fitted(line, size));
    return y;
  }

  double draw_heading() {
    const std::string& title = s_.page.title;
    if (!s_.page.heading) return title.empty() ? 1 : lines(title, -2, 11) + 6;
    const double y = lines(title.empty() ? s_.heading : title, 6.4, 13);
    if (s_.subject.empty()) return y + 8;
    return grey_lines(s_.subject, y + 3, 10) + 8;
  }

  double left_of(const PlotAxis& y) const {
    double widest = 0;
    for (const Tick& t : y.ticks()) widest = std::max(widest, text_width(t.text, kPlotWords));
    return std::max(s_.left, widest + 5);
  }

  // The panels from `first` on that are side by side. Returns where they end.
  double draw_row(std::size_t first, double y) {
    const std::size_t last = std::min(first + columns_, s_.panels.size());
    const double gap = 12;
    const double cell = (p_.width - 2 * edge() - gap * static_cast<double>(columns_ - 1)) /
                        static_cast<double>(columns_);
    double bottom = y;
    for (std::size_t i = first; i < last; ++i) {
      const double x = edge() + (cell + gap) * static_cast<double>(i - first);
      bottom = std::max(bottom, draw_panel(i, x, y, cell));
    }
    return bottom;
  }

  double draw_panel(std::size_t i, double x, double y, double cell) {
    if (!s_.panels[i].empty()) {
      y += kPlotLine;
      words(x, y, kPlotWords, ink::black, shortened(s_.panels[i], kPlotWords * 1.08, cell),
            Anchor::Start, true);
      y += 2;
    }
    PlotFrame f;
    // Its height decides about ticks, and they decide about its width.
    const double guess = cell - 30 - s_.right;
    f.height =
        s_.height > 0
            ? s_.height
            : std::max({s_.least_height, kLeastHeight,
                        (s_.square ? guess : std::clamp(guess * 0.62, 90.0, 230.0)) - lower_});
    f.y = s_.y_axis(i, f.height);
    f.left = x + std::max(left_, left_of(f.y));
    f.width = x + cell - s_.right - f.left;
    if (s_.square) f.height = f.width = std::max(kLeastHeight, f.width - lower_);
    f.x = s_.x_axis(i, f.width);
    if (!s_.y_name.empty()) {
      y += kPlotLine;
      words(x, y, kPlotWords, ink::grey,
            shortened(with_unit(s_.y_name, f.y.unit()), kPlotWords, cell));
    }
    f.top = y + 7;
    draw_axes(f);
    s_.draw(i, f, p_.shapes);
    double bottom = f.bottom() + 3;
    const bool named = std::any_of(f.x.ticks().begin(), f.x.ticks().end(),
                                   [](const Tick& t) { return !t.text.empty(); });
    if (named) bottom += kPlotLine;
    if (!s_.x_name.empty()) {
      bottom += kPlotLine;
      words(f.left + f.width / 2, bottom, kPlotWords, ink::grey, with_unit(s_.x_name, f.x.unit()),
            Anchor::Middle);
    }
    return bottom + 4;
  }

  void draw_axes(const PlotFrame& f) {
    const auto line = [&](Point a, Point b, Colour colour, double width) {
      p_.shapes.emplace_back(Stroke{{a, b}, colour, width, false, false});
    };
    for (const Tick& t : f.y.ticks()) {
      const double y = f.at(f.x.low(), t.value).y;
      if (s_.grid) line({f.left, y}, {f.right(), y}, ink::rule, 0.6);
      words(f.left - 4, y + kPlotWords * 0.36, kPlotWords, ink::grey, t.text, Anchor::End);
    }
    line({f.left, f.bottom()}, {f.right(), f.bottom()}, ink::grey, 0.8);
    double free = -1e9;
    for (const Tick& t : f.x.ticks()) {
      const double x = f.at(t.value, f.y.low()).x;
      line({x, f.bottom()}, {x, f.bottom() + 3}, ink::grey, 0.8);
      if (t.text.empty()) continue;
      const double half = text_width(t.text, kPlotWords) / 2;
      const double middle = std::clamp(x, half, p_.width - half);
      if (middle - half < free) continue;
      words(middle, f.bottom() + 3 + kPlotLine - 1, kPlotWords, ink::grey, t.text, Anchor::Middle);
      free = middle + half + 3;
    }
  }

  double draw_key(double y) {
    constexpr double kIcon = 14, kTall = 8;
    double x = edge();
    for (const KeyEntry& e : s_.key) {
      const std::string text = fitted(e.text, kPlotWords);
      const double width = kIcon + 4 + text_width(text, kPlotWords);
      if (x > edge() && x + width > p_.width - edge()) {
        x = edge();
        y += kPlotLine + 1;
      }
      Box icon{x, y + 2, kIcon, kTall, {}, Hatch::None, {}, 1, {}};
      e.draw(icon, p_.shapes);
      words(x + kIcon + 4, y + 9, kPlotWords, ink::black, text);
      x += width + 10;
    }
    return y + kPlotLine + 1;
  }

  const PlotSheet& s_;
  const bool tight_;
  const double lower_;
  std::size_t columns_;
  double left_ = 0;  // room for the words at the left of all panels, so that they line up
  Picture p_;
};

}  // namespace

// Panels are lower where the page would else be too high; squares first stand in fewer rows.
Picture drawn(const PlotSheet& s) {
  const auto over = [&](const Picture& p) {
    return s.page.height > 0 && s.height <= 0 ? (p.height - s.page.height) / s.page.unit() : 0;
  };
  Picture p = Sheet(s).draw();
  if (over(p) <= 0) return p;
  const bool wide = s.square && s.panels.size() > 1 && s.page.units() >= kNarrow;
  Sheet sheet(s, 0, wide);
  const auto rows = static_cast<double>(sheet.rows());
  p = sheet.draw();
  return over(p) > 0 ? Sheet(s, over(p) / rows, wide).draw() : p;
}

std::vector<ValueRange> shared_ranges(std::vector<ValueRange> of_panels) {
  constexpr double kFlat = 4;
  ValueRange all, ends;
  for (const ValueRange& r : of_panels) {
    all.add(r.low);
    all.add(r.high);
    ends.add(r.high);
  }
  if (ends.high <= kFlat * ends.low) of_panels.assign(of_panels.size(), all);
  return of_panels;
}

std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high) {
  struct Cluster {
    double sum;
    std::size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    clusters.push_back({wanted[i] - static_cast<double>(i) * gap, 1});
    while (clusters.size() > 1 && clusters[clusters.size() - 2].mean() > clusters.back().mean()) {
      const Cluster last = clusters.back();
      clusters.pop_back();
      clusters.back().sum += last.sum;
      clusters.back().count += last.count;
    }
  }
  const double most = high - gap * (static_cast<double>(wanted.size()) - 1);
  std::size_t i = 0;
  for (const Cluster& c : clusters)
    for (std::size_t k = 0; k < c.count; ++k, ++i)
      wanted[i] = std::max(low, std::min(c.mean(), most)) + static_cast<double>(i) * gap;
  return wanted;
}

std::string with_unit(const std::string& name, const std::string& unit) {
  return unit.empty() ? name : fmt::format("{} ({})", name, unit);
}

}  // namespace ringsched
