// A worker as bars: its compute lane, and below it what comes in and what goes out.
#include <algorithm>

#include "internal.hpp"

namespace ringsched {

namespace {

// Of more messages than this a pointer is told of attends alone, or the file would be large.
constexpr std::size_t kTold = 130;
constexpr double kVisible = 0.35;   // points; what is narrower is widened to this
constexpr double kWithWords = 9;    // the least height of a bar that has a label
constexpr double kWithNumber = 22;  // ... and a step number besides

// Bars too narrow to be told apart are drawn once.
class Thinner {
 public:
  bool skip(double x0, double x1, int kind) {
    const bool seen = kind == kind_ && x1 <= upto_ && x1 - x0 < kVisible;
    if (!seen) {
      kind_ = kind;
      upto_ = std::max(x1, x0 + kVisible);
    }
    return seen;
  }

 private:
  double upto_ = -1;
  int kind_ = -1;
};

void label_bar(const Box& bar, const Timeline& run, const TimelineTask& t, bool numbered,
               std::vector<Shape>& out) {
  if (bar.height < kWithWords || !is_attend(t.kind)) return;
  const double size = std::min(11.0, bar.height * 0.62);
  const std::string text = short_name(run, t);
  const double width = text_width(text, size);
  if (width + 4 > bar.width) return;
  const Colour paper = bar.fill.value_or(ink::white);
  Label name{bar.x + bar.width / 2,
             bar.y + bar.height / 2 + size * 0.36,
             size,
             text_on(paper),
             Anchor::Middle,
             false,
             text};
  const std::string step = std::to_string(t.step);
  const double beside = text_width(step, kStepSize) + 4;
  const bool with_step =
      numbered && bar.height >= kWithNumber && width + 2 * beside + 4 <= bar.width;
  if (bar.hatch != Hatch::None) {  // words on stripes are hard to read
    Box plate = bounds(name);
    plate.x -= 1.5;
    plate.width += 3;
    plate.y -= 1;
    plate.height += 2;
    plate.fill = paper;
    out.emplace_back(plate);
  }
  out.emplace_back(std::move(name));
  if (with_step)
    out.emplace_back(Label{bar.x + 3, bar.y + kStepSize + 0.5, kStepSize, text_on(paper),
                           Anchor::Start, false, step});
}

void draw_compute(const SortedRun& run, std::uint32_t worker, const Strip& s, const TimeAxis& axis,
                  bool numbered, bool critical_path, std::vector<Shape>& out) {
  const Timeline& t = *run.timeline;
  if (is_unknown(t, worker)) {
    if (s.compute >= kWithWords)
      out.emplace_back(Label{axis.right - 4, s.y + s.compute / 2 + 3.2, 9, ink::grey, Anchor::End,
                             false, "no times from its process"});
    return;
  }
  std::vector<Shape> overhead, outlines, words;
  std::int64_t until = 0;
  Thinner thin, thin_gap;
  for (const std::uint32_t id : run.compute[worker]) {
    const TimelineTask& task = t.tasks[id];
    const double x0 = axis.x(task.start_ps), x1 = axis.x(task.end_ps);
    if (task.start_ps > until) {
      const double gap = axis.x(until);
      if (x0 - gap >= 0.2 && !thin_gap.skip(gap, x0, 0)) {
        Box b{gap, s.y, x0 - gap, s.compute, ink::waiting, Hatch::None, {}, 1, {}};
        if (s.compute >= kWithWords) b.hatch = Hatch::Dots;
        out.emplace_back(b);
      }
    }
    until = std::max(until, task.end_ps);
    const bool attends = is_attend(task.kind);
    if (thin.skip(x0, x1, attends ? task.queries : -2)) continue;
    Box bar{x0, s.y, std::max(x1 - x0, kVisible), s.compute, {}, Hatch::None, {}, 1, {}};
    if (bar.width > 4) bar.width -= 0.7;  // so that neighbours of one colour are two
    bar.fill = attends ? worker_colour(task.queries, t.problem.workers) : ink::overhead;
    if (attends && task.queries != worker) bar.hatch = Hatch::Diagonal;
    if (attends || run.messages <= kTold) bar.about = about(run, id);
    if (critical_path && run.critical[id]) {
      Box frame = bar;
      frame.fill.reset();
      frame.hatch = Hatch::None;
      frame.about.clear();
      frame.outline = ink::black;
      frame.outline_width = s.compute >= kWithWords ? 2 : 1;
      if (frame.width >= 2) outlines.emplace_back(frame);
    }
    label_bar(bar, t, task, numbered, words);
    (attends ? out : overhead).emplace_back(std::move(bar));
  }
  if (until < axis.end_ps && has_more(t, worker)) {  // it waited when the run was given up
    Box b{axis.x(until),
          s.y,
          axis.right - axis.x(until),
          s.compute,
          ink::waiting,
          Hatch::None,
          {},
          1,
          {}};
    if (s.compute >= kWithWords) b.hatch = Hatch::Dots;
    out.emplace_back(b);
  } else if (until < axis.end_ps) {  // nothing left to do: a line, and no colour
    const double from = axis.x(until) + 2;
    if (from < axis.right)
      out.emplace_back(Stroke{{{from, s.y + s.compute / 2}, {axis.right, s.y + s.compute / 2}},
                              ink::rule,
                              1,
                              true,
                              false});
  }
  std::move(overhead.begin(), overhead.end(), std::back_inserter(out));
  std::move(outlines.begin(), outlines.end(), std::back_inserter(out));
  std::move(words.begin(), words.end(), std::back_inserter(out));
}

// Which of how many sub-rows each message has, so that those at one time stand above each other.
struct Stacked {
  std::uint32_t task = 0, row = 0, rows = 1;
};
std::vector<Stacked> stacked(const Timeline& t, const std::vector<std::uint32_t>& tasks) {
  std::vector<Stacked> all;
  std::vector<std::int64_t> row_ends;
  std::size_t first = 0;  // of those that overlap, directly or through others
  std::int64_t until = -1;
  const auto close = [&] {
    for (; first < all.size(); ++first)
      all[first].rows = static_cast<std::uint32_t>(row_ends.size());
    row_ends.clear();
  };
  for (const std::uint32_t id : tasks) {
    const TimelineTask& x = t.tasks[id];
    if (x.start_ps >= until) close();
    std::uint32_t row = 0;
    while (row < row_ends.size() && row_ends[row] > x.start_ps) ++row;
    if (row == row_ends.size()) row_ends.push_back(0);
    row_ends[row] = x.end_ps;
    until = std::max(until, x.end_ps);
    all.push_back({id, row, 1});
  }
  close();
  return all;
}

void label_message(const Box& bar, const Timeline& run, const TimelineTask& t,
                   std::vector<Shape>& out) {
  const double size = std::min(9.0, bar.height * 0.85);
  const std::string name = short_name(run, t),
                    text = name.substr(name.find(' ') + 1);  // "kv3 to 5"
  if (bar.height < 7 || text_width(text, size) + 4 > bar.width) return;
  out.emplace_back(Label{bar.x + bar.width / 2, bar.y + bar.height / 2 + size * 0.36, size,
                         text_on(*bar.fill), Anchor::Middle, false, text});
}

void draw_lane(const SortedRun& run, const std::vector<std::uint32_t>& tasks, double y,
               double height, const TimeAxis& axis, std::vector<Shape>& out) {
  const Timeline& t = *run.timeline;
  std::vector<std::pair<Colour, std::vector<Box>>> by_colour;  // what is alike stands together
  const auto boxes = [&](Colour c) -> std::vector<Box>& {
    for (auto& [colour, list] : by_colour)
      if (colour == c) return list;
    return by_colour.emplace_back(c, std::vector<Box>()).second;
  };
  std::vector<Shape> words;
  Thinner thin;
  for (const Stacked& s : stacked(t, tasks)) {
    const TimelineTask& x = t.tasks[s.task];
    const Colour colour = cargo_colour(t.value(x));
    const double tall = height / s.rows, top = y + tall * s.row;
    const double x0 = axis.x(x.start_ps), moving = axis.x(run.moving_from[s.task]),
                 moved = std::max(axis.x(run.moving_until[s.task]), moving), x1 = axis.x(x.end_ps);
    if (thin.skip(x0, x1, static_cast<int>(x.makes.value) * 64 + static_cast<int>(s.row))) continue;
    // Before the other end is posted, and until the rest of the group is complete: a line, no bar.
    const double middle = top + tall / 2;
    for (const auto& [from, to] : {std::pair{x0, moving}, std::pair{moved, x1}})
      if (to - from >= kPosted)
        out.emplace_back(Stroke{{{from, middle}, {to, middle}},
                                mixed(colour, ink::black, 0.25),
                                std::min(1.0, tall / 2),
                                false,
                                false});
    if (run.moving_until[s.task] <= run.moving_from[s.task]) continue;
    Box bar{moving, top, std::max(moved - moving, kVisible), tall * 0.92, colour, Hatch::None, {},
            1,      {}};
    if (run.messages <= kTold) bar.about = about(run, s.task);
    label_message(bar, t, x, words);
    boxes(colour).push_back(std::move(bar));
  }
  for (auto& [colour, list] : by_colour)
    for (Box& bar : list) out.emplace_back(std::move(bar));
  std::move(words.begin(), words.end(), std::back_inserter(out));
}

// Where a message of a worker stands.
double middle_of(const SortedRun& run, std::uint32_t task, bool incoming, const Strip& s) {
  const TimelineTask& x = run.timeline->tasks[task];
  const double top = s.y + s.compute + 1 + (incoming ? 0 : s.lane + 1);
  for (const Stacked& k : stacked(*run.timeline, (incoming ? run.in : run.out)[x.worker]))
    if (k.task == task) return top + s.lane / k.rows * (k.row + 0.5);
  return top + s.lane / 2;
}

}  // namespace

void draw_worker(const SortedRun& run, std::uint32_t worker, const Strip& s, const TimeAxis& axis,
                 bool numbered, bool critical_path, std::vector<Shape>& out) {
  draw_compute(run, worker, s, axis, numbered, critical_path, out);
  if (s.lane <= 0) return;
  draw_lane(run, run.in[worker], s.y + s.compute + 1, s.lane, axis, out);
  draw_lane(run, run.out[worker], s.y + s.compute + 2 + s.lane, s.lane, axis, out);
}

void draw_path_arrows(const SortedRun& run, const std::vector<Strip>& strips, const TimeAxis& axis,
                      std::vector<Shape>& out) {
  const Timeline& t = *run.timeline;
  if (t.details.empty()) return;
  for (const CriticalStep& step : t.critical_path) {
    const std::uint32_t id = step.task.value;
    const TimelineTask& x = t.tasks[id];
    if (!is_transfer(x.kind) || step.end <= step.start) continue;
    // Where the group at its sender's was waited for, the path stays there.
    const bool arrives = is_receive(x.kind);
    const std::uint32_t send = arrives ? t.details[id].needs[0].value : id;
    if (send >= t.tasks.size()) continue;
    const Strip &from = strips[t.tasks[send].worker], &to = strips[x.worker];
    if (from.lane <= 0) continue;
    out.emplace_back(Stroke{{{axis.x(step.start.value), middle_of(run, send, false, from)},
                             {axis.x(step.end.value), middle_of(run, id, arrives, to)}},
                            ink::black,
                            1,
                            false,
                            true});
  }
}

}  // namespace ringsched
