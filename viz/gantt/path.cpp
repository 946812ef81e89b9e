// The critical path in a chart: what is on it, how it goes from worker to worker, and where its
// lines run. They keep to the gutters between rows, and cross rows where no words stand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "internal.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kNone = ~0u;

// Follows the path as the timeline has it, and finds out whether a reader could.
class Follow {
 public:
  explicit Follow(const SortedRun& run) : t_(*run.timeline), other_end_(t_.tasks.size(), kNone) {
    path_.on.resize(t_.tasks.size());
    for (std::uint32_t i = 0; i < t_.details.size(); ++i) {
      const TaskId send = t_.details[i].needs[0];
      if (!is_receive(t_.tasks[i].kind) || send.value >= t_.tasks.size()) continue;
      other_end_[i] = send.value;
      other_end_[send.value] = i;
    }
  }

  DrawnPath path() {
    for (const CriticalStep& step : t_.critical_path) {
      if (step.end <= step.start) continue;
      const TimelineTask& x = t_.tasks[step.task.value];
      if (const TimelineExchange* e = t_.exchange(step.task.value))
        meet(*e);
      else if (is_transfer(x.kind))
        hop(step);
      else
        reach(x.worker);
      path_.on[step.task.value] = true;
    }
    return std::move(path_);
  }

 private:
  bool is_member(std::uint32_t worker) const {
    for (std::uint32_t id = met_->first.value; id < met_->end(); ++id)
      if (t_.tasks[id].worker == worker) return true;
    return false;
  }
  bool is_here(std::uint32_t worker) const {
    return met_ ? is_member(worker) : at_ == kNone || at_ == worker;
  }
  void reach(std::uint32_t worker) {
    if (!is_here(worker) && path_.jump.empty())
      path_.jump =
          met_ ? fmt::format("from an exchange to worker {}, which is no member", worker)
               : fmt::format("from worker {} to worker {} without a message that takes time", at_,
                             worker);
    at_ = worker;
    met_ = nullptr;
  }
  void meet(const TimelineExchange& e) {
    const TimelineExchange* const before = met_;
    met_ = &e;
    if (!before && at_ != kNone && !is_member(at_)) {
      met_ = nullptr;
      reach(t_.tasks[e.first.value].worker);
      met_ = &e;
    }
    for (std::uint32_t id = e.first.value; id < e.end(); ++id) path_.on[id] = true;
  }
  // The path goes on at the worker whose task the step names, and comes from there or from the
  // other end.
  void hop(const CriticalStep& step) {
    const std::uint32_t id = step.task.value, other = other_end_[id];
    const std::uint32_t here = t_.tasks[id].worker;
    if (other == kNone) return reach(here);
    const std::uint32_t there = t_.tasks[other].worker;
    const bool starts = at_ == kNone && !met_;
    const bool stays = starts ? is_send(t_.tasks[id].kind) : is_here(here);
    if (!stays) reach(there);
    path_.on[other] = true;
    path_.hops.push_back({stays ? id : other, id, step.start.value, step.end.value});
    at_ = here;
    met_ = nullptr;
  }

  const Timeline& t_;
  std::vector<std::uint32_t> other_end_;  // by task, of transfers
  DrawnPath path_;
  std::uint32_t at_ = kNone;               // the worker where the path is,
  const TimelineExchange* met_ = nullptr;  // or the exchange
};

// One hop as a line.
class Route {
 public:
  Route(const std::vector<Strip>& strips, double gap, const TimeAxis& axis,
        const std::vector<Box>& words)
      : strips_(strips), gap_(gap), axis_(axis), words_(words) {}

  std::vector<Point> along(std::uint32_t row, Point start, double x1) const {
    const double y = is_free(start, {x1, start.y}) ? start.y : gutter(row);
    return {{start.x, y}, {x1, y}};
  }
  std::vector<Point> down(std::uint32_t from, std::uint32_t to, Point start, double x1) {
    leave(from, start);
    for (std::uint32_t r = from + 1; r < to; ++r) cross(r, gutter(r - 1));
    turn(gutter(to - 1), x1);
    points_.push_back({x1, strips_[to].y});
    return std::move(points_);
  }
  std::vector<Point> up(std::uint32_t from, std::uint32_t to, Point start, Point end) {
    points_ = {start};
    if (!is_free(start, {start.x, strips_[from].y})) {
      leave(from, start);
      cross(from, gutter(from));
    }
    for (std::uint32_t r = from - 1; r > to; --r) cross(r, gutter(r));
    turn(gutter(to), end.x);
    const Point below{end.x, gutter(to)};
    points_.push_back(is_free(below, end) ? end : below);
    return std::move(points_);
  }

 private:
  double gutter(std::uint32_t row) const {
    return strips_[row].y + strips_[row].height() + gap_ / 2;
  }
  bool is_free(Point a, Point b) const {
    const double x0 = std::min(a.x, b.x), x1 = std::max(a.x, b.x);
    const double y0 = std::min(a.y, b.y), y1 = std::max(a.y, b.y);
    return std::ranges::none_of(words_, [&](const Box& w) {
      return w.x < x1 && x0 < w.x + w.width && w.y < y1 && y0 < w.y + w.height;
    });
  }
  void leave(std::uint32_t row, Point start) {
    const Point below{start.x, gutter(row)};
    points_ = {is_free(start, below) ? start : below};
  }
  void turn(double y, double x) {
    const Point at = points_.back();
    if (std::abs(x - at.x) < 0.01) return;
    if (std::abs(y - at.y) > 0.01) points_.push_back({at.x, y});
    points_.push_back({x, y});
  }
  // As far along the gutter as it takes to cross this row beside its words.
  void cross(std::uint32_t row, double y) {
    const double at = points_.back().x;
    const double above = strips_[row].y - gap_ / 2;
    const auto crosses = [&](double x) {
      if (x <= axis_.left || x >= axis_.right || !is_free({x, above}, {x, gutter(row)}))
        return false;
      turn(y, x);
      return true;
    };
    for (double far = 0; far < axis_.right - axis_.left; far += 1.5)
      if (crosses(at + far) || crosses(at - far)) return;
  }

  const std::vector<Strip>& strips_;
  const double gap_;
  const TimeAxis& axis_;
  const std::vector<Box>& words_;
  std::vector<Point> points_;
};

}  // namespace

DrawnPath drawn_path(const SortedRun& run) { return Follow(run).path(); }

bool is_only_path(const SortedRun& run) {
  const Timeline& t = *run.timeline;
  std::vector<bool> on(t.problem.workers);
  // A member of an exchange on the path waits in it no less than the worker that is named.
  std::vector<std::int64_t> together(t.problem.workers);
  for (const CriticalStep& step : t.critical_path) {
    on[t.tasks[step.task.value].worker] = true;
    if (const TimelineExchange* e = t.exchange(step.task.value))
      for (std::uint32_t id = e->first.value; id < e->end(); ++id)
        together[t.tasks[id].worker] += (step.end - step.start).value;
  }
  for (std::uint32_t w = 0; w < t.problem.workers; ++w) {
    const WorkerTimes& x = run.times.workers[w];
    if (!on[w] &&
        x.waiting.value + x.out_of_work.value - together[w] <= run.times.makespan.value / 1000)
      return false;
  }
  return true;
}

void draw_hops(const SortedRun& run, const DrawnPath& path, const std::vector<Strip>& strips,
               double gap, const TimeAxis& axis, std::vector<Shape>& out) {
  std::vector<Box> words;
  for (const Shape& s : out)
    if (const auto* label = std::get_if<Label>(&s)) {
      words.push_back(bounds(*label));
      words.back().x -= 1.5;
      words.back().width += 3;
    }
  for (const Hop& hop : path.hops) {
    const TimelineTask& leaves = run.timeline->tasks[hop.leaves];
    const TimelineTask& arrives = run.timeline->tasks[hop.arrives];
    const std::uint32_t from = leaves.worker, to = arrives.worker;
    if (strips[from].lane <= 0) continue;
    const Point start{axis.x(hop.start_ps),
                      middle_of(run, hop.leaves, is_receive(leaves.kind), strips[from])};
    const Point end{axis.x(hop.end_ps),
                    middle_of(run, hop.arrives, is_receive(arrives.kind), strips[to])};
    Route route(strips, gap, axis, words);
    out.emplace_back(Stroke{from < to   ? route.down(from, to, start, end.x)
                            : from > to ? route.up(from, to, start, end)
                                        : route.along(from, start, end.x),
                            ink::black, 1.1, false, true});
  }
}

}  // namespace ringsched
