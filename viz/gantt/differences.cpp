// Where two runs differ: a list below their chart, and its numbers in the chart.
#include <fmt/format.h>

#include <algorithm>

#include "chart.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/timeline/compare.hpp"

namespace ringsched {

namespace {

// "exchange rounded_partial" as "exchange of results".
std::string in_words(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"rounded_partial", "results"},
      {"partial", "partial results"},
      {"key_value", "keys and values"},
      {"query", "queries"},
      {"rounded_query_gradient", "query gradients"},
      {"rounded_key_value_gradient", "key and value gradients"},
      {"query_gradient", "query gradients"},
      {"key_value_gradient", "key and value gradients"},
      {"output_gradient", "output gradients"}};
  if (name == "attend_backward") return "backward attend";
  const std::size_t space = name.find(' ');
  for (const auto& [value, text] : words)
    if (space != name.npos && name.substr(space + 1) == value)
      return fmt::format("{} of {}", name.substr(0, space), text);
  return name;
}

}  // namespace

// The tasks of one plan that differ most, numbered in the chart; of two plans, the kinds of task.
double GanttChart::draw_differences(double y) {
  constexpr std::size_t kCalledOut = 5;
  const Comparison c =
      compare(timeline(0), timeline(1), kCalledOut * (options_.worker ? 4 * workers_ : 1));
  struct Line {
    std::string what;
    Picoseconds a, b;
    double ratio() const {
      return a.value > 0 ? static_cast<double>(b.value) / static_cast<double>(a.value) : 0;
    }
  };
  std::vector<Line> lines;
  if (c.same_plan) {
    for (const ComparedTask& w : c.worst) {
      const TimelineTask& t = timeline(0).tasks[w.task];
      if (!shows(t.worker)) continue;
      if (lines.size() == kCalledOut) break;
      if (!bands_) call_out(w.task, lines.size() + 1);
      lines.push_back({fmt::format("{}   {}, worker {}, step {}", lines.size() + 1,
                                   short_name(timeline(0), w.task), t.worker, t.step),
                       w.took[0], w.took[1]});
    }
  } else {
    for (const ComparedPart& p : c.classes)
      if (!p.name.starts_with("send") && (p.time[0].value > 0 || p.time[1].value > 0))
        lines.push_back({fmt::format("all {}", in_words(p.name)), p.time[0], p.time[1]});
  }
  words(edge(), y + 10, 10, ink::black, Anchor::Start, true,
        c.same_plan ? lines.empty() ? "No task differs" : "Tasks that differ most"
                    : "Time by kind of task");
  double at = y + 10;
  const bool as_ratios =
      std::ranges::any_of(lines, [](const Line& l) { return reads_as_ratio(l.ratio()); });
  for (const Line& l : lines) {
    const bool changes = l.ratio() > 0 && l.a != l.b;
    line_of_words(
        at += 14, 10, ink::black, false,
        fmt::format("{}: {} and {}{}", l.what, drawn_time(l.a, axis_.unit),
                    drawn_time(l.b, axis_.unit),
                    changes ? fmt::format(" ({})", change_of(l.ratio(), as_ratios)) : ""));
  }
  return at - y + 8;
}

void GanttChart::call_out(std::uint32_t task, std::size_t number) {
  for (std::size_t r = 0; r < 2; ++r) {
    const TimelineTask& t = timeline(r).tasks[task];
    const Strip& s = strips_[t.worker - options_.worker.value_or(0)][r];
    const double size = std::max(8.0, axis_.least_text), side = size + 3;
    Point middle{std::max(axis_.x(t.start_ps), axis_.left) + side / 2, s.y + side / 2};
    if (communicates(t.kind))
      middle = {std::min((axis_.x(t.start_ps) + axis_.x(t.end_ps)) / 2, axis_.right - side / 2),
                s.y + s.compute + 1 + s.lane / 2};
    const Box box = free_place({middle.x - side / 2,
                                middle.y - side / 2,
                                side,
                                side,
                                ink::white,
                                Hatch::None,
                                ink::black,
                                1,
                                {}});
    called_.push_back(box);
    picture_.shapes.emplace_back(box);
    words(box.x + side / 2, box.y + side / 2 + size * 0.36, size, ink::black, Anchor::Middle, true,
          std::to_string(number));
  }
}

// There, or a little higher or further right, where it hides no label and no other number.
Box GanttChart::free_place(Box wanted) const {
  const auto hits = [&](const Box& box) {
    return std::ranges::any_of(called_, [&](const Box& other) { return overlap(box, other); }) ||
           std::ranges::any_of(picture_.shapes, [&](const Shape& shape) {
             const auto* label = std::get_if<Label>(&shape);
             return label && overlap(bounds(*label), box);
           });
  };
  for (double right = 0; wanted.x + right + wanted.width < axis_.right; right += wanted.width / 2)
    for (const double up : {0.0, 3.0, 6.0, 9.0}) {
      Box box = wanted;
      box.x += right;
      box.y -= up;
      if (!hits(box)) return box;
    }
  return wanted;
}

}  // namespace ringsched
