// Many workers, or more tasks than there are dots on the page: what share of the time goes where.
#include <algorithm>
#include <array>
#include <cmath>

#include "internal.hpp"

namespace ringsched {

namespace {

constexpr double kColumn = 2.5;  // points: finer ones show noise, not shape
constexpr double kAlike = 0.02;  // of the makespan

// Amounts of time in columns.
class Columns {
 public:
  explicit Columns(const TimeAxis& axis)
      : axis_(axis),
        sums_(static_cast<std::size_t>(
            std::max(1.0, std::floor((axis.right - axis.left) / kColumn)))) {}

  void add(std::int64_t start_ps, std::int64_t end_ps) {
    if (end_ps <= start_ps) return;
    const double scale = static_cast<double>(sums_.size()) / static_cast<double>(axis_.end_ps);
    const double from = static_cast<double>(start_ps) * scale;
    const double to = static_cast<double>(end_ps) * scale;
    auto column = std::min(static_cast<std::size_t>(from), sums_.size() - 1);
    for (double at = from; at < to && column < sums_.size(); ++column) {
      const double next = std::min(to, static_cast<double>(column + 1));
      sums_[column] += next - at;
      at = next;
    }
  }
  std::size_t size() const { return sums_.size(); }
  double operator[](std::size_t i) const { return sums_[i]; }
  double x(std::size_t i) const {
    return axis_.left +
           (axis_.right - axis_.left) * static_cast<double>(i) / static_cast<double>(sums_.size());
  }

 private:
  const TimeAxis& axis_;
  std::vector<double> sums_;
};

enum Class : std::size_t { Own, Helping, Overhead, Waiting };
constexpr std::size_t kClasses = 4;
constexpr Colour kLook[kClasses] = {ink::own, ink::helping, ink::overhead, ink::waiting};

// Between two curves of shares, as steps; points that change nothing are left out.
void add_area(const Columns& columns, const std::vector<double>& low,
              const std::vector<double>& high, const Strip& s, Colour fill,
              std::vector<Shape>& out) {
  constexpr double kSame = 0.002;
  const auto y = [&](double share) { return s.y + s.compute * (1 - std::min(1.0, share)); };
  for (std::size_t i = 0; i < low.size();) {
    if (high[i] - low[i] < kSame) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < low.size() && high[end] - low[end] >= kSame) ++end;
    std::vector<Point> top, bottom;
    for (std::size_t k = i; k < end; ++k) {
      const auto stair = [&](std::vector<Point>& line, double share) {
        if (!line.empty() && std::abs(line.back().y - y(share)) < kSame * s.compute) {
          line.back().x = columns.x(k + 1);
          return;
        }
        line.push_back({columns.x(k), y(share)});
        line.push_back({columns.x(k + 1), y(share)});
      };
      stair(top, high[k]);
      stair(bottom, low[k]);
    }
    top.insert(top.end(), bottom.rbegin(), bottom.rend());
    out.emplace_back(Area{std::move(top), fill});
    i = end;
  }
}

void draw_moving(const Columns& moving, double workers, const Strip& s, std::vector<Shape>& out) {
  constexpr double kShades = 8;
  const auto shade = [&](std::size_t i) {
    return std::ceil(std::min(1.0, moving[i] / workers) * kShades - 0.02);
  };
  for (std::size_t i = 0; i < moving.size();) {
    std::size_t end = i;
    while (end < moving.size() && shade(end) == shade(i)) ++end;
    if (shade(i) > 0) {
      Box b{moving.x(i),
            s.y + s.compute + 1,
            moving.x(end) - moving.x(i),
            s.lane,
            {},
            Hatch::None,
            {},
            1,
            {}};
      b.fill = mixed(ink::white, ink::results, shade(i) / kShades);
      out.emplace_back(b);
    }
    i = end;
  }
}

// What some workers do, by columns of time: all of their kinds of time, and what comes in.
struct BandTimes {
  std::vector<Columns> time;
  Columns moving;

  BandTimes(const SortedRun& run, std::uint32_t first, std::uint32_t last, const TimeAxis& axis)
      : time(kClasses, Columns(axis)), moving(axis) {
    const Timeline& t = *run.timeline;
    for (std::uint32_t w = first; w < last; ++w) {
      std::int64_t until = 0;
      for (const std::uint32_t id : run.compute[w]) {
        const TimelineTask& x = t.tasks[id];
        time[Waiting].add(until, x.start_ps);
        time[!is_attend(x.kind) ? Overhead
             : x.queries == w   ? Own
                                : Helping]
            .add(std::max(until, x.start_ps), x.end_ps);
        until = std::max(until, x.end_ps);
      }
      std::int64_t moved = 0;
      for (const std::uint32_t id : run.in[w]) {  // receives, so that each message counts once
        moving.add(std::max(moved, run.moving_from[id]), t.tasks[id].end_ps);
        moved = std::max(moved, t.tasks[id].end_ps);
      }
    }
  }
};

}  // namespace

void draw_band(const SortedRun& run, std::uint32_t first, std::uint32_t last, const Strip& s,
               const TimeAxis& axis, std::vector<Shape>& out) {
  const auto [time, moving] = BandTimes(run, first, last, axis);
  const double workers = last - first;
  std::vector<double> low(moving.size(), 0.0), high;
  for (std::size_t c = 0; c < kClasses; ++c) {
    high = low;
    for (std::size_t i = 0; i < high.size(); ++i) high[i] += time[c][i] / workers;
    add_area(moving, low, high, s, kLook[c], out);
    low = high;
  }
  if (s.lane > 0) draw_moving(moving, workers, s, out);
}

bool are_alike(const SortedRun& run, WorkerRange a, WorkerRange b, const TimeAxis& axis) {
  const BandTimes of_a(run, a.first, a.last, axis), of_b(run, b.first, b.last, axis);
  const double most = kAlike * static_cast<double>(of_a.moving.size());
  const auto stay_close = [&](const Columns& x, const Columns& y) {
    double apart = 0;  // columns, up to here
    for (std::size_t i = 0; i < x.size(); ++i) {
      apart += x[i] / (a.last - a.first) - y[i] / (b.last - b.first);
      if (std::abs(apart) > most) return false;
    }
    return true;
  };
  for (std::size_t c = 0; c < kClasses; ++c)
    if (!stay_close(of_a.time[c], of_b.time[c])) return false;
  return stay_close(of_a.moving, of_b.moving);
}

}  // namespace ringsched
