#include "axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringsched {

namespace {

constexpr double kLogFrom = 12;   // times the least value
constexpr double kTextSize = 10;  // of ticks, as drawn

struct AxisUnit {
  double scale;
  const char* name;
};

AxisUnit unit_of(PlotUnit q, double greatest) {
  const auto largest = [&](std::initializer_list<AxisUnit> units) {
    for (const AxisUnit& u : units)
      if (greatest >= u.scale) return u;
    return *(units.end() - 1);
  };
  switch (q) {
    case PlotUnit::Microseconds:
      return largest({{1e6, "s"}, {1e3, "ms"}, {1, "µs"}, {1e-3, "ns"}});
    case PlotUnit::Blocks:
      return {1, "blocks"};
    case PlotUnit::Memory:
      return largest({{1099511627776.0, "TiB"},
                      {1073741824.0, "GiB"},
                      {1048576.0, "MiB"},
                      {1024, "KiB"},
                      {1, "B"}});
    case PlotUnit::PerSecond:
      return largest({{1e9, "billion"}, {1e6, "million"}, {1e3, "thousand"}, {1, ""}});
    case PlotUnit::Percent:
      return {0.01, "%"};
    case PlotUnit::Count:
    case PlotUnit::Times:
      break;
  }
  return {1, ""};
}

// Without trailing zeros.
std::string plain(double x) {
  if (x == 0) return "0";
  return fmt::format("{:.6g}", x);
}

}  // namespace

double nice_step(double x) {
  if (!(x > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(x) + 1e-12));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= x * (1 - 1e-12)) return times * power;
  return 10 * power;
}

std::string short_count(double x) {
  const auto whole = [&](double unit) {
    return x >= unit && std::fmod(x, unit) == 0 && x / unit < 1e6;
  };
  if (whole(1048576)) return fmt::format("{:.0f}M", x / 1048576);
  if (whole(1024) && x >= 2048) return fmt::format("{:.0f}K", x / 1024);
  return plain(x);
}

void PlotAxis::choose_unit(PlotUnit q, double greatest) {
  const AxisUnit u = unit_of(q, greatest);
  scale_ = u.scale;
  unit_ = u.name;
}

PlotAxis PlotAxis::over(double least, double greatest, PlotUnit q, double room, double apart) {
  PlotAxis a;
  a.choose_unit(q, std::max(std::abs(least), std::abs(greatest)));
  a.log_ = least > 0 && greatest / least >= kLogFrom;
  if (a.log_) {
    a.low_ = least / 1.25;
    a.high_ = greatest * 1.25;
    a.add_log_ticks();
    return a;
  }
  return linear(least, greatest, q, room, apart);
}

PlotAxis PlotAxis::around(double least, double greatest, PlotUnit q, double room, double apart) {
  PlotAxis a = over(least, greatest, q, room, apart);
  if (a.log_) return a;
  // Ticks are told apart by six digits.
  const double least_margin = 1e-4 * std::max(std::abs(least), std::abs(greatest));
  const double margin =
      greatest > least ? std::max((greatest - least) / 8, least_margin) : std::abs(greatest) / 2;
  a.ticks_.clear();
  a.low_ = least >= 0 ? std::max(0.0, least - margin) : least - margin;
  a.high_ = greatest + margin;
  if (a.high_ <= a.low_) a.high_ = a.low_ + a.scale_;
  a.add_ticks(room, apart);
  return a;
}

PlotAxis PlotAxis::linear(double least, double greatest, PlotUnit q, double room, double apart,
                          bool exact) {
  PlotAxis a;
  a.choose_unit(q, std::max(std::abs(least), std::abs(greatest)));
  a.low_ = std::min(0.0, least);
  a.high_ = std::max(0.0, greatest);
  if (a.high_ == a.low_) a.high_ = a.low_ + a.scale_;
  const double end = a.high_;
  a.add_ticks(room, apart);
  if (exact) {
    a.high_ = end;
    while (a.ticks_.back().value > end) a.ticks_.pop_back();
  }
  return a;
}

// Zero and round numbers; the axis ends at the last one needed.
void PlotAxis::add_ticks(double room, double apart) {
  const double wanted = std::max(2.0, room / apart);
  const double step = nice_step((high_ - low_) / scale_ / wanted);
  const double first = std::floor(low_ / scale_ / step + 1e-9);
  const double last = std::ceil(high_ / scale_ / step - 1e-9);
  const int steps = static_cast<int>(std::clamp(last - first, 1.0, 200.0));
  low_ = first * step * scale_;
  high_ = (first + steps) * step * scale_;
  for (int i = 0; i <= steps; ++i)
    ticks_.push_back({(first + i) * step * scale_, plain((first + i) * step)});
}

void PlotAxis::add_log_ticks() {
  const double decades = std::log10(high_ / low_);
  const double every = std::ceil(decades / 6);
  double power = std::pow(10, std::floor(std::log10(low_ / scale_)));
  for (; power * scale_ <= high_; power *= std::pow(10, decades > 2.2 ? every : 1))
    for (const double times : {1.0, 2.0, 5.0}) {
      if (times > 1 && decades > 2.2) break;
      const double value = times * power * scale_;
      if (value >= low_ && value <= high_) ticks_.push_back({value, plain(times * power)});
    }
}

PlotAxis PlotAxis::at(std::vector<double> values, PlotUnit q, double room) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  PlotAxis a;
  a.choose_unit(q, values.back());
  a.log_ = values.front() > 0 && values.back() / values.front() >= 6;
  a.low_ = values.front();
  a.high_ = values.back();
  if (a.high_ == a.low_) {
    a.low_ -= 1;
    a.high_ += 1;
  }
  double free = -std::numeric_limits<double>::infinity();
  for (const double v : values) {
    std::string text = q == PlotUnit::Count ? short_count(v) : plain(v / a.scale_);
    const double width = text_width(text, kTextSize), middle = a.share(v) * room;
    if (middle - width / 2 < free)
      text.clear();
    else
      free = middle + width / 2 + 5;
    a.ticks_.push_back({v, std::move(text)});
  }
  return a;
}

PlotAxis PlotAxis::of_cells(const std::vector<double>& values, double room, bool named) {
  PlotAxis a;
  a.low_ = -0.5;
  a.high_ = static_cast<double>(values.size()) - 0.5;
  if (!named) return a;
  double widest = 0;
  for (const double v : values) widest = std::max(widest, text_width(short_count(v), kTextSize));
  // Every cell has a name, or every second, fourth, ...
  const double cell = room / static_cast<double>(values.size());
  std::size_t every = 1;
  while (cell * static_cast<double>(every) < widest + 5 && every < values.size()) every *= 2;
  for (std::size_t i = 0; i < values.size(); ++i)
    a.ticks_.push_back(
        {static_cast<double>(i), i % every == 0 ? short_count(values[i]) : std::string()});
  return a;
}

double PlotAxis::share(double value) const {
  if (log_) return std::log(std::max(value, low_ * 1e-9) / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

}  // namespace ringsched
