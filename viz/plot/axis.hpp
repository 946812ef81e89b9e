// Where values are along an axis, and its labels. Gantt charts share `nice_step`.
#pragma once

#include <string>
#include <vector>

#include "ringsched/viz/plot.hpp"

namespace ringsched {

// 1, 2 or 5 times a power of ten, not below x.
double nice_step(double x);
// "64K", "1M", "1000", "0.25"
std::string short_count(double);

struct Tick {
  double value;
  std::string text;
};

class PlotAxis {
 public:
  // Over all values, with about one tick per `apart` of `room`. Logarithmic if the greatest is many
  // times the least; otherwise from zero.
  static PlotAxis over(double least, double greatest, PlotUnit, double room, double apart);
  // The same, never logarithmic. `exact`: it ends at the greatest value, not at a tick.
  static PlotAxis linear(double least, double greatest, PlotUnit, double room, double apart,
                         bool exact = false);
  // For points, which need no zero: a little more than all values.
  static PlotAxis around(double least, double greatest, PlotUnit, double room, double apart);
  // With ticks at these values; where there is no room, some have no name.
  static PlotAxis at(std::vector<double> values, PlotUnit, double room);

  // Of cells beside each other: value i stands at i, the first cell begins at -0.5. Rows without
  // names count down from the top.
  static PlotAxis of_cells(const std::vector<double>& values, double room, bool named = true);

  // 0 at its beginning, 1 at its end.
  double share(double value) const;
  bool logarithmic() const { return log_; }
  double low() const { return low_; }
  double high() const { return high_; }
  const std::string& unit() const { return unit_; }  // "ms", or empty
  const std::vector<Tick>& ticks() const { return ticks_; }
  // A value in the unit of the axis.
  double in_unit(double value) const { return value / scale_; }

 private:
  void choose_unit(PlotUnit, double greatest);
  void add_ticks(double room, double apart);
  void add_log_ticks();

  double low_ = 0, high_ = 1, scale_ = 1;
  bool log_ = false;
  std::string unit_;
  std::vector<Tick> ticks_;
};

}  // namespace ringsched
