// Who sends how much to whom: a square of workers, darker where more goes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "frame.hpp"
#include "gantt/internal.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/viz/sweep_plot.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kMostCells = 64;  // along a side
constexpr double kLargestCell = 40, kUsualSide = 500;
constexpr Colour kMost = {0x0b, 0x3d, 0x66};
constexpr std::size_t kMostLevels = 5;  // in the key

// What each other member sends to one that gets `bytes`, if each share went straight to it; -1:
// what a timeline says of the exchange does not tell.
double sent_by_each(ExchangeForm form, bool sums, double bytes, double members) {
  switch (form) {
    case ExchangeForm::AllGather:
      return bytes / members;
    case ExchangeForm::AllToAll:
      return sums ? -1 : bytes / members;
    case ExchangeForm::ReduceScatter:
    case ExchangeForm::AllReduce:
      return bytes;
    default:
      return -1;
  }
}

class TrafficMap {
 public:
  TrafficMap(const Traffic& t, const Page& page) : t_(t), page_(page) {
    // Cells of whole nodes, or of parts of them, so that no cell is on both sides of a line.
    std::uint32_t each = (t.workers + kMostCells - 1) / kMostCells;
    while (t.per_node > 0 && t.per_node % each != 0 && each % t.per_node != 0) ++each;
    each_ = each;
    side_ = (t.workers + each - 1) / each;
    bytes_.resize(std::size_t{side_} * side_);
    for (std::uint32_t from = 0; from < t.workers; ++from)
      for (std::uint32_t to = 0; to < t.workers; ++to)
        bytes_[std::size_t{from / each} * side_ + to / each] +=
            t.bytes[std::size_t{from} * t.workers + to];
    for (const double b : bytes_) most_ = std::max(most_, b);
    unit_ = PlotAxis::linear(0, most_, PlotUnit::Memory, 100, 100);
  }

  Picture draw() {
    const double room = page_.fixed() ? page_.units() : kUsualSide;
    const double left = text_width(std::to_string(t_.workers), kPlotWords) + 6;
    PlotSheet s{.page = page_,
                .heading = t_.heading,
                .subject = t_.subject,
                .x_name = "to worker",
                .y_name = "from worker",
                .warning = t_.warning,
                .panels = {""},
                .right = std::max(4.0, (page_.fixed() ? room - left : 536 - left) -
                                           kLargestCell * static_cast<double>(side_)),
                .left = left,
                .square = true,
                .grid = false,
                .key = key(),
                .notes = notes(),
                .x_axis = {},
                .y_axis = {},
                .draw = {}};
    // A cell has the name of its first worker.
    std::vector<double> first(side_);
    for (std::uint32_t i = 0; i < side_; ++i) first[i] = i * each_;
    s.x_axis = [&](std::size_t, double wide) { return PlotAxis::of_cells(first, wide); };
    s.y_axis = [&](std::size_t, double) { return PlotAxis::of_cells(first, 1e9, false); };
    s.draw = [&](std::size_t, const PlotFrame& f, std::vector<Shape>& out) { draw_cells(f, out); };
    return drawn(s);
  }

 private:
  std::string name(std::uint32_t cell) const {
    return range_text(cell * each_, std::min(t_.workers, (cell + 1) * each_) - 1);
  }
  Colour shade(double bytes) const { return mixed(ink::white, kMost, 0.1 + 0.9 * bytes / most_); }
  std::string number(double bytes) const {
    const double x = unit_.in_unit(bytes);
    return x >= 99.5 || x == std::round(x) ? fmt::format("{:.0f}", x)
           : x >= 9.95                     ? fmt::format("{:.1f}", x)
                                           : fmt::format("{:.2f}", x);
  }

  // The amounts that there are, or, of many, some over the whole range.
  std::vector<KeyEntry> key() const {
    std::set<double, std::greater<>> levels;
    for (const double b : bytes_)
      if (b > 0 && levels.size() <= kMostLevels) levels.insert(b);
    if (levels.size() > kMostLevels) {
      levels.clear();
      for (std::size_t i = 1; i < kMostLevels; ++i)
        levels.insert(most_ * static_cast<double>(i) / (kMostLevels - 1));
    }
    std::vector<KeyEntry> out;
    for (const double b : levels)
      out.push_back({fmt::format("{} {}", number(b), unit_.unit()),
                     [fill = shade(b)](Box icon, std::vector<Shape>& shapes) {
                       icon.fill = fill;
                       shapes.emplace_back(icon);
                     }});
    return out;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    if (each_ > 1)
      out.push_back(fmt::format("Each cell: what {} workers send to {}.", each_, each_));
    if (t_.per_node > 0 && t_.per_node < t_.workers)
      out.push_back(fmt::format("Lines: between nodes of {} workers.", t_.per_node));
    return out;
  }

  void draw_cells(const PlotFrame& f, std::vector<Shape>& out) const {
    const double cell = f.width / side_, gap = cell >= 8 ? 0.5 : 0;
    double size = std::min(kPlotWords, cell * 0.5);
    for (const double b : bytes_)
      if (b > 0) size = std::min(size, size * (cell - 3) / text_width(number(b), size));
    const bool fits = size >= std::max(5.5, page_.least());
    for (std::uint32_t from = 0; from < side_; ++from)
      for (std::uint32_t to = 0; to < side_;) {
        const double bytes = bytes_[std::size_t{from} * side_ + to];
        // Without gaps, neighbours that are alike are one box.
        std::uint32_t end = to + 1;
        while (gap == 0 && end < side_ && bytes_[std::size_t{from} * side_ + end] == bytes) ++end;
        const std::uint32_t first = std::exchange(to, end);
        if (bytes <= 0) continue;
        Box b{f.left + cell * first + gap,
              f.top + cell * from + gap,
              cell * (end - first) - 2 * gap,
              cell - 2 * gap,
              shade(bytes),
              Hatch::None,
              {},
              1,
              {}};
        if (gap > 0)
          b.about =
              fmt::format("{} to {}: {} {}", name(from), name(first), number(bytes), unit_.unit());
        const Colour ink = text_on(*b.fill);
        const Point middle{b.x + b.width / 2, b.y + b.height / 2};
        out.emplace_back(std::move(b));
        if (fits)
          out.emplace_back(Label{middle.x, middle.y + size * 0.36, size, ink, Anchor::Middle, false,
                                 number(bytes)});
      }
    draw_lines(f, cell, out);
    draw_names(f, cell, out);
  }

  void draw_lines(const PlotFrame& f, double cell, std::vector<Shape>& out) const {
    const auto line = [&](double at, Colour colour, double width) {
      out.emplace_back(
          Stroke{{{f.left + at, f.top}, {f.left + at, f.bottom()}}, colour, width, false, false});
      out.emplace_back(
          Stroke{{{f.left, f.top + at}, {f.right(), f.top + at}}, colour, width, false, false});
    };
    for (const double at : {0.0, f.width}) line(at, ink::grey, 0.8);
    for (std::uint32_t w = t_.per_node; w > 0 && w < t_.workers; w += t_.per_node)
      line(cell * w / each_, ink::black, 0.8);
  }

  // Of as many rows as there is room for.
  void draw_names(const PlotFrame& f, double cell, std::vector<Shape>& out) const {
    const auto every = static_cast<std::uint32_t>(std::ceil(kPlotLine / cell));
    for (std::uint32_t i = 0; i < side_; i += every)
      out.emplace_back(Label{f.left - 4, f.top + cell * (i + 0.5) + kPlotWords * 0.36, kPlotWords,
                             ink::grey, Anchor::End, false, std::to_string(i * each_)});
  }

  const Traffic& t_;
  const Page& page_;
  std::uint32_t each_ = 1, side_ = 1;  // workers of a cell; cells along a side
  std::vector<double> bytes_;
  double most_ = 0;
  PlotAxis unit_;
};

}  // namespace

Traffic traffic_of(const Timeline& t, std::uint32_t per_node) {
  if (t.details.empty())
    fail("the timeline of {} does not tell how large its messages are: it has no details",
         named(t));
  const std::uint32_t workers = t.problem.workers;
  Traffic out{.heading = {},
              .subject = {},
              .warning = incomplete_mark(t),
              .workers = workers,
              .per_node = per_node,
              .bytes = std::vector<double>(std::size_t{workers} * workers)};
  const auto add = [&](std::uint32_t from, std::uint32_t to, double bytes) {
    out.bytes[std::size_t{from} * workers + to] += bytes;
  };
  const auto ended = [&](std::uint32_t task) {
    return !std::ranges::binary_search(t.unfinished, TaskId{task});
  };
  for (std::uint32_t i = 0; i < t.tasks.size(); ++i)
    if (is_send(t.tasks[i].kind) && ended(i))
      add(t.tasks[i].worker, t.tasks[i].other, static_cast<double>(t.details[i].bytes.value));
  for (const TimelineExchange& e : t.exchanges)
    for (std::uint32_t to = e.first.value; to < e.end(); ++to) {
      const double bytes = sent_by_each(e.form, t.value(t.tasks[to]).is_sum,
                                        static_cast<double>(t.details[to].bytes.value),
                                        static_cast<double>(e.members));
      if (bytes < 0)
        fail(
            "the timeline of {} does not tell who gives what in an {} of {}; draw its plan "
            "(ringsched plan)",
            named(t), to_text(e.form), t.value(t.tasks[to]).name);
      for (std::uint32_t from = e.first.value; from < e.end(); ++from)
        if (from != to && ended(to)) add(t.tasks[from].worker, t.tasks[to].worker, bytes);
    }
  double all = 0, between = 0;
  for (std::uint32_t from = 0; from < workers; ++from)
    for (std::uint32_t to = 0; to < workers; ++to) {
      const double bytes = out.bytes[std::size_t{from} * workers + to];
      all += bytes;
      if (per_node > 0 && from / per_node != to / per_node) between += bytes;
    }
  if (workers == 1) fail("{} has one worker, which sends nothing: no traffic to draw", named(t));
  if (all <= 0) fail("no worker of {} sends anything: no traffic to draw", named(t));
  const auto amount = [](double bytes) {
    return human(Bytes{static_cast<std::int64_t>(std::llround(bytes))});
  };
  out.subject = fmt::format("{}, {}: {} in all", named(t), counted(workers, "worker"), amount(all));
  out.heading = fmt::format("The workers send {} to each other", amount(all));
  if (per_node > 0 && per_node < workers) {
    out.subject += fmt::format(", {} between nodes", amount(between));
    out.heading += fmt::format(", {:.0f}% of it between nodes", 100 * between / all);
  }
  return out;
}

Traffic traffic_of(const Plan& plan, std::string_view machine, std::uint32_t per_node) {
  return traffic_of(
      timeline_of(lower_exchanges(plan, Lowering::Direct).plan, TimelineSource::Predicted, machine),
      per_node);
}

Picture traffic_map(const Traffic& t, const Page& page) { return TrafficMap(t, page).draw(); }

}  // namespace ringsched
