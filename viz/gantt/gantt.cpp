#include "ringsched/viz/gantt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "chart.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

Picture GanttChart::draw() {
  picture_.width = width_;
  picture_.title = described_picture();
  double top = options_.page.heading ? draw_heading() : draw_title();
  const bool both = timeline(0).problem.pass == Pass::Both;
  if (both) top += 10;
  lay_out_rows(top);
  find_steps();
  path_ = choose_path();
  const double rows_end = strips_.back().back().y + strips_.back().back().height() + 4;
  double bottom = rows_end;
  std::vector<Shape> whiskers;
  for (std::size_t r = 0; r < runs_.size() && !options_.worker; ++r)
    if (timeline(r).interval)
      bottom +=
          draw_whisker(timeline(r), runs_.size() == 2 ? side(r) : "", axis_, bottom + 7, whiskers);
  if (!whiskers.empty()) bottom += 4;
  if (!step_starts_.empty()) draw_steps(top, rows_end);
  draw_time_axis(axis_, top, bottom, picture_.shapes);
  if (!bands_ && !options_.worker)
    for (std::size_t r = 0; r < runs_.size(); ++r)
      draw_exchanges(runs_[r], path_, strips_by_worker(r), axis_, picture_.shapes);
  for (std::size_t r = 0; r < runs_.size() && !bands_; ++r)
    label_sizes_.emplace_back(runs_[r], options_.worker, strips_[0][r].compute, axis_);
  if (label_sizes_.size() == 2) label_sizes_[0].share_with(label_sizes_[1]);
  for (std::uint32_t row = 0; row < rows() && runs_.size() == 2; ++row)
    as_ratios_ = as_ratios_ || reads_as_ratio(row_ratio(row));
  for (std::uint32_t row = 0; row < rows(); ++row) draw_row(row);
  if (both) draw_begin_of_backward(top);
  picture_.shapes.insert(picture_.shapes.end(), whiskers.begin(), whiskers.end());
  const LegendUse use = legend();
  if (path_.look != PathLook::None && !options_.worker)
    draw_hops(runs_[0], path_, strips_by_worker(0), size_.gap, axis_, picture_.shapes);
  picture_.height = bottom + 19;
  if (options_.page.legend) {
    double y = bottom + 28;
    y += draw_legend(use, std::max(edge(), 6.0), width_ - edge(), y, picture_.shapes);
    if (runs_.size() == 2 && differences_) y += draw_differences(y + 8);
    picture_.height = y + 6;
  }
  return on_page(std::move(picture_), options_.page);
}

void GanttChart::words(double x, double y, double size, Colour colour, Anchor anchor, bool bold,
                       std::string text) {
  picture_.shapes.emplace_back(Label{x, y, size, colour, anchor, bold, std::move(text)});
}
// A title on as many lines as it needs, the first one at this height. Returns where the last one
// is.
double GanttChart::title_lines(double y, double size, const std::string& text) {
  double at = y;
  for (const std::string& line : wrapped(text, size, width_ - 2 * edge(), true)) {
    line_of_words(at, size, ink::black, true, line);
    at += size * 1.2;
  }
  return std::max(y, at - size * 1.2);
}
// Smaller, and finally cut, if it would leave the page.
void GanttChart::line_of_words(double y, double size, Colour colour, bool bold, std::string text) {
  const double room = width_ - 2 * edge();
  size = std::clamp(size * room / std::max(1.0, text_width(text, size, bold)),
                    std::max(6.0, axis_.least_text), size);
  if (text_width(text, size, bold) > room) {
    while (!text.empty() && text_width(text + "...", size, bold) > room) {
      do text.pop_back();
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80);
    }
    text += "...";
  }
  words(edge(), y, size, colour, Anchor::Start, bold, std::move(text));
}

// Without the picture's own heading: the requested title, or nothing; but a run that did not end
// says so. Returns where the rows begin.
double GanttChart::draw_title() {
  const std::string& title = options_.page.title;
  const std::string mark = incomplete_mark(timeline(0));
  const double top = title.empty() ? 20 : title_lines(12, 12, title) + 26;
  if (mark.empty()) return top;
  line_of_words(top - 8, 10, ink::black, true, mark);
  return top + 16;
}

// A sentence about the run or the runs, what it is about, and figures.
double GanttChart::draw_heading() {
  const std::string& title = options_.page.title;
  const double last = title_lines(26, 15, title.empty() ? outcome() : title);
  line_of_words(last + 17, 11, ink::grey, false, subject());
  if (runs_.size() == 1) {
    line_of_words(last + 37, 12, ink::black, !timeline(0).incomplete.empty(),
                  facts(timeline(0), runs_[0].times));
    return last + 66;
  }
  const auto y = [last](std::size_t run) { return last + 37 + 16 * static_cast<double>(run); };
  for (std::size_t r = 0; r < 2; ++r) line_of_words(y(r), 12, ink::black, true, side(r));
  const double beside =
      edge() + 16 + std::max(text_width(side(0), 12, true), text_width(side(1), 12, true));
  for (std::size_t r = 0; r < 2; ++r)
    words(beside, y(r), 12, ink::black, Anchor::Start, false, facts(timeline(r), runs_[r].times));
  return last + 82;
}

// The plans, the machine and the problem.
std::string GanttChart::subject() const {
  const Timeline& t = timeline(0);
  const std::string problem = described(t.problem);
  if (runs_.size() == 1)
    return fmt::format("{}{}; {}{}", t.machine.empty() ? "" : printable(t.machine) + "; ", problem,
                       to_text(t.source), conditions_of(t));
  std::string runs = named(t);
  if (const std::string other = named(timeline(1)); other != runs)
    runs = t.machine == timeline(1).machine ? fmt::format("{} and {}", name_of(t), other)
                                            : fmt::format("{} and {}", runs, other);
  return fmt::format("{}, {}; {}", runs, counted(workers_, "worker"), problem);
}

std::string GanttChart::outcome() const {
  return runs_.size() == 2 ? outcome_of_two() : outcome_of_one();
}

// "balanced: 8 workers finish in 1.52 ms and are idle 12% of the time"
std::string GanttChart::outcome_of_one() const {
  const Timeline& t = timeline(0);
  const RunTimes& times = runs_[0].times;
  const std::string makespan = drawn_time(times.makespan, t.unit);
  const bool past = t.source != TimelineSource::Predicted, one = workers_ == 1;
  if (!t.incomplete.empty()) return fmt::format("{}, {}", name_of(t), counted(workers_, "worker"));
  if (options_.worker) {
    const auto attending = static_cast<double>(times.workers[*options_.worker].attending.value);
    return fmt::format("Worker {} of {} attend{} for {:.0f}% of {}", *options_.worker, name_of(t),
                       past ? "ed" : "s",
                       100 * attending / static_cast<double>(times.makespan.value), makespan);
  }
  const double idle = times.idle_fraction;
  const char* be = past ? (one ? "was" : "were") : (one ? "is" : "are");
  return fmt::format(
      "{}: {} {} in {} and {} {}", name_of(t), counted(workers_, "worker"),
      past  ? "finished"
      : one ? "finishes"
            : "finish",
      makespan, be,
      idle < 0.0005 ? "never idle"
                    : fmt::format("idle {:.{}f}% of the time", 100 * idle, idle < 0.095 ? 1 : 0));
}

// "balanced finishes 37% sooner than ring"
std::string GanttChart::outcome_of_two() const {
  const double ratio = static_cast<double>(runs_[1].times.makespan.value) /
                       static_cast<double>(runs_[0].times.makespan.value);
  const std::string first = as_subject(0), second = as_subject(1);
  std::string text;
  if (std::abs(ratio - 1) < 0.0005)
    text = fmt::format("{} and {} have equal makespans", first, second);
  else if (ratio >= 2)
    text = fmt::format("{} takes {:.1f}x as long as {}", second, ratio, first);
  else if (ratio <= 0.1)  // "99.7% sooner" says little
    text = fmt::format("{} takes {:.1f}x as long as {}", first, 1 / ratio, second);
  else
    text = fmt::format("{} finishes {:.{}f}% {} than {}", second, 100 * std::abs(ratio - 1),
                       std::abs(ratio - 1) < 0.095 ? 1 : 0, ratio < 1 ? "sooner" : "later", first);
  if (text.starts_with("the ")) text[0] = 'T';
  return text;
}

// A run as the subject of a sentence: "ring", "the measured run", "the run with noise 5%".
std::string GanttChart::as_subject(std::size_t run) const {
  const Timeline &a = timeline(0), &b = timeline(1);
  if (a.source == b.source && (a.schedule != b.schedule || a.machine != b.machine))
    return side(run);
  if (a.source == b.source && a.conditions != b.conditions)
    return timeline(run).conditions.empty() ? "the usual run" : "the run with " + side(run);
  return fmt::format("the {} run", side(run));
}

// For readers who cannot see it.
std::string GanttChart::described_picture() const {
  if (!options_.page.title.empty()) return options_.page.title;
  const Timeline& t = timeline(0);
  if (runs_.size() == 1)
    return fmt::format("{}, {}, {}", named(t), counted(workers_, "worker"),
                       facts(t, runs_[0].times));
  return fmt::format("{} and {}: {} and {}", side(0), side(1),
                     drawn_time(runs_[0].times.makespan, axis_.unit),
                     drawn_time(runs_[1].times.makespan, axis_.unit));
}

void GanttChart::draw_steps(double top, double bottom) {
  double free = 0;
  for (const auto& [step, at] : step_starts_) {
    const double x = axis_.x(at);
    picture_.shapes.emplace_back(Stroke{{{x, top - 6}, {x, bottom}}, ink::grey, 0.6, true, false});
    const std::string text = free == 0 ? fmt::format("step {}", step) : fmt::format("{}", step);
    if (x < free || x + 4 + text_width(text, 9) > axis_.right) continue;
    words(x + 2, top - 8, 9, ink::grey, Anchor::Start, false, text);
    free = x + 2 + text_width(text, 9) + 6;
  }
}

// A line down the rows where each begins its backward pass, with the word above the first.
void GanttChart::draw_begin_of_backward(double top) {
  bool named = false;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    std::vector<Point> line;
    const auto draw = [&] {
      if (line.size() > 1)
        picture_.shapes.emplace_back(Stroke{std::move(line), ink::grey, 1.2, false, false});
      line.clear();
    };
    for (std::uint32_t row = 0; row < rows(); ++row) {
      std::int64_t begin = -1;
      for (std::uint32_t w = first_of(row); w < last_of(row); ++w)
        for (const std::uint32_t id : runs_[r].compute[w]) {
          const TimelineTask& t = timeline(r).tasks[id];
          if (!is_backward(t.kind) && t.kind != TaskKind::Prepare) continue;
          if (begin < 0 || t.start_ps < begin) begin = t.start_ps;
          break;  // they are sorted by start
        }
      if (begin < 0) continue;
      const Strip& s = strips_[row][r];
      const double x = axis_.x(begin);
      const double above = step_starts_.empty() ? 17 : 6;  // not through the number of a step
      line.push_back(
          {x, row == 0 && r == 0 ? top - above : s.y - (line.empty() ? 0 : size_.gap / 2)});
      line.push_back({x, s.y + s.height() + (runs_.size() == 1 ? size_.gap / 2 : 0)});
      if (runs_.size() == 2) draw();
      const double width = text_width("backward", 9);
      if (!std::exchange(named, true))
        words(std::min(x + 3, axis_.right - width), top - 19, 9, ink::grey, Anchor::Start, false,
              "backward");
    }
    draw();
  }
}

void GanttChart::draw_row(std::uint32_t row) {
  const Strip& first = strips_[row].front();
  const Strip& last = strips_[row].back();
  const double bottom = last.y + last.compute;
  const double middle = (first.y + bottom) / 2;
  // If rows are thinner than their words, only some have a name.
  const double pitch = last.y + last.height() + size_.gap - first.y;
  const auto every = static_cast<std::uint32_t>(std::max(1.0, (size_.words + 2) / pitch + 0.99));
  if (row % every == 0) {
    if (!bands_) {
      Box swatch{edge(), middle - size_.words / 2, size_.words, size_.words, {}, Hatch::None, {}, 1,
                 {}};
      swatch.fill = worker_colour(first_of(row), workers_);
      picture_.shapes.emplace_back(swatch);
    }
    words(name_at(), middle + size_.words * 0.36, size_.words, ink::black, Anchor::Start, false,
          row_name(row));
    words(width_ - edge(), middle + 3.2, std::min(size_.words, 10.0), ink::grey, Anchor::End, false,
          row_number(row));
  }
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const Strip& s = strips_[row][r];
    if (runs_.size() == 2 && std::max(s.compute, s.height() - 2) >= 7)
      words(side_at_, s.y + s.compute / 2 + side_size() * 0.36, side_size(), ink::grey,
            Anchor::Start, false, side(r));
    if (bands_) {
      draw_band(runs_[r], first_of(row), last_of(row), s, axis_, picture_.shapes);
    } else {
      draw_worker(runs_[r], first_of(row), s, axis_, label_sizes_[r],
                  runs_.size() == 1 && step_starts_.empty(), path_, picture_.shapes);
    }
  }
  if (row == 0 && tight_) words(edge(), first.y - 8, 9, ink::grey, Anchor::Start, false, "worker");
  if (row == 0)
    words(width_ - edge(), first.y - 8, 9, ink::grey, Anchor::End, false,
          runs_.size() == 2 ? "compute" : "attend");
}

// How much the second run computes in this row over what the first does; 0: the first does nothing.
double GanttChart::row_ratio(std::uint32_t row) const {
  double part[2] = {0, 0};
  for (std::size_t r = 0; r < 2; ++r)
    for (std::uint32_t w = first_of(row); w < last_of(row); ++w) {
      const WorkerTimes& t = runs_[r].times.workers[w];
      part[r] += static_cast<double>(t.attending.value) + static_cast<double>(t.overhead.value);
    }
  return part[0] > 0 ? part[1] / part[0] : 0;
}

// The number at the right: the share of its time that a worker attends, or how much more of it the
// second run computes.
std::string GanttChart::row_number(std::uint32_t row) const {
  if (runs_.size() == 2) {
    const double ratio = row_ratio(row);
    return ratio > 0 ? change_of(ratio, as_ratios_) : "";
  }
  if (!bands_ && is_unknown(*runs_[0].timeline, first_of(row))) return "";
  double attending = 0;
  for (std::uint32_t w = first_of(row); w < last_of(row); ++w)
    attending += static_cast<double>(runs_[0].times.workers[w].attending.value);
  return fmt::format("{:.0f}%", 100 * attending / static_cast<double>(axis_.runs_ps) /
                                    (last_of(row) - first_of(row)));
}

std::vector<Strip> GanttChart::strips_by_worker(std::size_t run) const {
  std::vector<Strip> out;
  for (const auto& row : strips_) out.push_back(row[run]);
  return out;
}

// What was asked for, or what reads best.
DrawnPath GanttChart::choose_path() const {
  if (options_.path == PathLook::None) return {};
  const bool asked = options_.path.has_value();
  const auto refuse = [&](const std::string& why) {
    if (asked) fail("the critical path cannot be drawn: {}", why);
    return DrawnPath{};
  };
  if (runs_.size() == 2) return refuse("two timelines are drawn; draw one");
  if (timeline(0).critical_path.empty())
    return refuse(fmt::format("the timeline of {} has none", named(timeline(0))));
  if (bands_) return refuse("this chart shows bands of workers, not tasks; use --worker N");
  DrawnPath path = drawn_path(runs_[0]);
  if (!path.jump.empty()) return refuse("it goes " + path.jump);
  // In more rows, most of the chart would be too pale to read.
  constexpr std::uint32_t kMostFaded = 16;
  if (!asked && (workers_ > kMostFaded || !is_only_path(runs_[0]))) return {};
  path.look = options_.path.value_or(PathLook::Fade);
  return path;
}

PathLook parse_path_look(std::string_view flag, std::string_view how) {
  check_choice(flag, how, {"fade", "outline", "none"});
  return how == "fade" ? PathLook::Fade : how == "outline" ? PathLook::Outline : PathLook::None;
}

namespace {

// As it is, or squeezed as little as the page allows.
Picture fitted(const std::vector<const Timeline*>& timelines, const GanttOptions& options) {
  Picture p = GanttChart(timelines, options).draw();
  const double most = options.page.height;
  for (std::size_t s = 0; most > 0 && p.height > most && s < GanttChart::squeezes(); ++s) {
    GanttChart lower(timelines, options, s);
    if (lower.is_squeezed()) p = lower.draw();
  }
  return p;
}

}  // namespace

Picture gantt(const Timeline& t, const GanttOptions& options) { return fitted({&t}, options); }

Picture gantt(const Timeline& first, const Timeline& second, const GanttOptions& options) {
  for (const Timeline* t : {&first, &second}) refuse_incomplete(*t);
  return fitted({&first, &second}, options);
}

}  // namespace ringsched
