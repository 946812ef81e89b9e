// The page of a chart: its title, its panels on common axes, and the notes below.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "axis.hpp"
#include "style.hpp"

namespace ringsched {

struct PlotFrame {
  double left = 0, top = 0, width = 0, height = 0;
  PlotAxis x, y;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
  Point at(double vx, double vy) const {
    return {left + width * x.share(vx), bottom() - height * y.share(vy)};
  }
};

struct ValueRange {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

constexpr double kPlotWords = 10;  // size of ticks and names
constexpr double kPlotLine = 12;   // from one line of such words to the next

// An entry of the key below a chart.
struct KeyEntry {
  std::string text;
  std::function<void(const Box& icon, std::vector<Shape>&)> draw;
};

// The layout of a chart, apart from the contents of its panels.
struct PlotSheet {
  const Page& page;
  std::string heading, subject, x_name, y_name;
  std::string warning = {};         // drawn even without a heading
  std::vector<std::string> panels;  // names; one without a name stands alone
  double right = 4;                 // room at the right of each panel
  double left = 0;                  // least room at the left
  double least_height = 0;          // of a panel's inside
  double height = 0;                // of a panel's inside; 0: by its width
  bool square = false;
  bool grid = true;
  std::vector<KeyEntry> key;
  std::vector<std::string> notes;
  std::function<PlotAxis(std::size_t panel, double room)> x_axis, y_axis;
  std::function<void(std::size_t panel, const PlotFrame&, std::vector<Shape>&)> draw;
};
Picture drawn(const PlotSheet&);

// Panels share an axis, unless some would be flat on it: the values that an axis of panel i covers.
std::vector<ValueRange> shared_ranges(std::vector<ValueRange> of_panels);

// Places as close as possible to those wanted (in order), `gap` apart, from `low` to `high` if
// there is room.
std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high);
// "time (ms)"
std::string with_unit(const std::string& name, const std::string& unit);

}  // namespace ringsched
