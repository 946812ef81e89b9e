// Charts of timelines: where their time goes, and what memory they hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "frame.hpp"
#include "gantt/internal.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "trace/parts.hpp"

namespace ringsched {

namespace {

double in_us(Picoseconds t) { return static_cast<double>(t.value) / 1e6; }

// By columns of time: the least and the greatest of all workers.
struct Envelope {
  std::vector<double> low, high;

  Envelope(const std::vector<std::vector<CounterStep>>& workers, std::int64_t end, std::size_t n)
      : low(n, 1e300), high(n, 0) {
    for (const auto& steps : workers)
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::int64_t until = i + 1 < steps.size() ? steps[i + 1].at_ps : end;
        const auto column = [&](std::int64_t ps) {
          return std::min(
              n - 1, static_cast<std::size_t>(static_cast<double>(ps) / static_cast<double>(end) *
                                              static_cast<double>(n)));
        };
        for (std::size_t c = column(steps[i].at_ps); c <= column(until); ++c) {
          low[c] = std::min(low[c], static_cast<double>(steps[i].value));
          high[c] = std::max(high[c], static_cast<double>(steps[i].value));
        }
      }
  }
};

}  // namespace

TimeBar timeline_bar(const Timeline& t) {
  refuse_empty(t);
  refuse_incomplete(t);
  const RunTimes r = run_times(t);
  TimeBar b;
  b.name = t.schedule.empty() ? "plan" : t.schedule;
  const auto n = static_cast<double>(r.workers.size());
  for (const WorkerTimes& w : r.workers) {
    b.attending += in_us(w.attending) / n;
    b.overhead += in_us(w.overhead) / n;
    b.waiting_for_host += in_us(w.waiting_for_host) / n;
    b.waiting += in_us(w.waiting - w.waiting_for_host) / n;
    b.done += in_us(w.out_of_work) / n;
  }
  b.exposed = in_us(r.exposed_communication);
  if (t.bound) b.bound = in_us(*t.bound);
  if (t.interval)
    std::tie(b.low, b.high) = std::pair(in_us((*t.interval)[0]), in_us((*t.interval)[1]));
  return b;
}

Picture memory_plot(const Timeline& t, double device_bytes, const Page& page) {
  refuse_empty(t);
  const auto workers = memory_counters(t);
  if (workers.empty())
    fail("the timeline of {} has no details, so its memory is unknown", named(t));
  const std::int64_t end = t.makespan().value;
  std::size_t fullest = 0;
  double most = 0;
  for (std::size_t w = 0; w < workers.size(); ++w)
    for (const CounterStep& s : workers[w])
      if (static_cast<double>(s.value) >= most) {
        most = static_cast<double>(s.value);
        fullest = w;
      }
  // A limit far above would flatten the lines, so an arrow points to it.
  const bool drawn_limit = device_bytes > 0 && device_bytes <= 4 * most;
  const std::string limit =
      fmt::format("limit of {}: {}", t.machine,
                  human(Bytes{static_cast<std::int64_t>(std::clamp(device_bytes, 0.0, 9e18))}));
  std::string held = fmt::format("Worker {} holds up to {}", fullest,
                                 human(Bytes{static_cast<std::int64_t>(most)}));
  if (device_bytes > 0)
    held += fmt::format(", {:.2g}% of its device's memory", 100 * most / device_bytes);
  PlotSheet s{.page = page,
              .heading = held,
              .subject = fmt::format("{}, {}", named(t), counted(t.problem.workers, "worker")),
              .x_name = "time",
              .y_name = "memory of a worker",
              .warning = incomplete_mark(t),
              .panels = {""},
              .right = text_width("worker 0000", kPlotWords) + 8,
              .key = {},
              .notes = {},
              .x_axis = {},
              .y_axis = {},
              .draw = {}};
  // An area that nobody can see, because all workers hold the same, is neither drawn nor explained.
  const Envelope range(workers, end, 200);
  std::size_t differ = 0;  // columns
  for (std::size_t i = 0; i < range.low.size(); ++i)
    differ += range.high[i] - range.low[i] > 0.01 * most;
  const bool apart = differ > 1;
  if (apart) s.notes.emplace_back("Grey: from the emptiest to the fullest worker.");
  s.x_axis = [&](std::size_t, double room) {
    return PlotAxis::linear(0, static_cast<double>(end) / 1e6,
                            t.unit == TimeUnit::Blocks ? PlotUnit::Blocks : PlotUnit::Microseconds,
                            room, 44, true);
  };
  s.y_axis = [&](std::size_t, double room) {
    return PlotAxis::linear(0, drawn_limit ? std::max(device_bytes, most) : 1.2 * most,
                            PlotUnit::Memory, room, 30);
  };
  s.draw = [&](std::size_t, const PlotFrame& f, std::vector<Shape>& out) {
    const auto at = [&](std::int64_t ps, double bytes) {
      return f.at(static_cast<double>(ps) / 1e6, bytes);
    };
    if (apart) {
      const Envelope& e = range;
      std::vector<Point> around, back;
      for (std::size_t i = 0; i < e.low.size(); ++i) {
        const auto n = static_cast<std::int64_t>(e.low.size());
        const std::int64_t from = end / n * static_cast<std::int64_t>(i), to = from + end / n;
        around.push_back(at(from, e.low[i]));
        around.push_back(at(to, e.low[i]));
        back.push_back(at(from, e.high[i]));
        back.push_back(at(to, e.high[i]));
      }
      around.insert(around.end(), back.rbegin(), back.rend());
      out.emplace_back(Area{std::move(around), ink::grey, 0.25});
    }
    std::vector<Point> path;
    const auto& steps = workers[fullest];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto bytes = static_cast<double>(steps[i].value);
      path.push_back(at(steps[i].at_ps, bytes));
      path.push_back(at(i + 1 < steps.size() ? steps[i + 1].at_ps : end, bytes));
    }
    const Point last = path.back();
    out.emplace_back(Stroke{std::move(path), ink::own, 1.3});
    out.emplace_back(Label{last.x + 4, last.y + kPlotWords * 0.36, kPlotWords, ink::black,
                           Anchor::Start, false, fmt::format("worker {}", fullest)});
    if (device_bytes <= 0) return;
    if (!drawn_limit) {
      out.emplace_back(
          Stroke{{{f.left + 6, f.top + 11}, {f.left + 6, f.top}}, ink::black, 1, false, true});
      out.emplace_back(Label{f.left + 12, f.top + kPlotWords, kPlotWords, ink::black, Anchor::Start,
                             false, shortened(limit, kPlotWords, f.width - 16)});
      return;
    }
    const double y = f.at(0, device_bytes).y;
    out.emplace_back(Stroke{{{f.left, y}, {f.right(), y}}, ink::black, 1, true, false});
    const bool above = y > f.top + kPlotWords + 4;  // at the start, runs hold less
    out.emplace_back(Label{f.left + 3, y + (above ? -3 : kPlotWords), kPlotWords, ink::black,
                           Anchor::Start, false, shortened(limit, kPlotWords, f.width - 6)});
  };
  return drawn(s);
}

}  // namespace ringsched
