#include "ringsched/viz/gantt.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gantt_internal.hpp"
#include "ringsched/scheduler/compare.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kMostRows = 64;
constexpr std::uint32_t kMostBands = 16;
constexpr std::size_t kMostBars = 24'000;  // in rows; a page has no room for more
constexpr double kEdge = 16;               // of the page
constexpr double kLeastWidth = 400, kMostWidth = 10'000;

// How tall things are, by how many rows there are.
struct Sizes {
  double bar, lane, gap, words;
};
Sizes sizes(std::size_t rows) {
  if (rows <= 4) return {34, 8, 13, 12};
  if (rows <= 8) return {28, 6, 10, 11};
  if (rows <= 16) return {20, 4.5, 7, 11};
  if (rows <= 32) return {13, 3, 4, 10};
  return {8, 2, 3, 8};
}

// The chart of one run, or of two above each other in each row.
class Chart {
 public:
  Chart(std::vector<const Timeline*> timelines, const GanttOptions& options)
      : options_(options), workers_(timelines[0]->problem.workers) {
    if (!(options.width >= kLeastWidth && options.width <= kMostWidth))
      fail("a width of {} points: allowed are {} to {}", options.width, kLeastWidth, kMostWidth);
    if (timelines.size() == 2) refuse_different_problems(*timelines[0], *timelines[1]);
    std::size_t bars = 0;
    for (const Timeline* t : timelines) {
      refuse_empty(*t);
      runs_.emplace_back(*t);
      bars += t->tasks.size();
      axis_.end_ps = std::max(axis_.end_ps, t->makespan().value);
      moves_ = moves_ || runs_.back().moves;
    }
    if (options.worker) {
      if (*options.worker >= workers_)
        fail("there is no worker {}: this timeline has workers 0 to {}", *options.worker,
             workers_ - 1);
      size_ = {44, 17, 12, 12};
      return;
    }
    bands_ = workers_ > kMostRows || bars > kMostBars;
    per_row_ = bands_ ? (workers_ + kMostBands - 1) / kMostBands : 1;
    rows_ = (workers_ + per_row_ - 1) / per_row_;
    size_ = bands_ ? Sizes{30, 4, 8, 11} : sizes(rows_ * runs_.size());
  }

  Picture draw() {
    picture_.width = options_.width;
    const double top = draw_head();
    lay_out_rows(top);
    find_steps();
    const double bottom = strips_.back().back().y + strips_.back().back().height() + 4;
    if (!step_starts_.empty()) draw_steps(top, bottom);
    draw_time_axis(axis_, top, bottom, picture_.shapes);
    for (std::uint32_t row = 0; row < rows_; ++row) draw_row(row);
    const LegendUse use = legend();
    if (use.critical && runs_.size() == 1 && !bands_ && !options_.worker) draw_path();
    double y = bottom + 28;
    y += draw_legend(use, kEdge, options_.width - kEdge, y, picture_.shapes);
    if (runs_.size() == 2) y += draw_differences(y + 8);
    picture_.height = y + 6;
    return std::move(picture_);
  }

 private:
  const Timeline& timeline(std::size_t run) const { return *runs_[run].timeline; }
  std::uint32_t first_of(std::uint32_t row) const {
    return options_.worker.value_or(0) + row * per_row_;
  }
  std::uint32_t last_of(std::uint32_t row) const {
    return std::min(workers_, first_of(row) + per_row_);
  }
  bool shows(std::uint32_t worker) const { return !options_.worker || *options_.worker == worker; }
  void words(double x, double y, double size, Colour colour, Anchor anchor, bool bold,
             std::string text) {
    picture_.shapes.emplace_back(Label{x, y, size, colour, anchor, bold, std::move(text)});
  }
  // Smaller, and at last cut, where it would leave the page.
  void line_of_words(double y, double size, Colour colour, bool bold, std::string text) {
    const double room = options_.width - 2 * kEdge;
    size = std::clamp(size * room / std::max(1.0, text_width(text, size, bold)), 6.0, size);
    if (text_width(text, size, bold) > room) {
      while (!text.empty() && text_width(text + "...", size, bold) > room) {
        do text.pop_back();
        while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80);
      }
      text += "...";
    }
    words(kEdge, y, size, colour, Anchor::Start, bold, std::move(text));
  }

  // "predicted" and "measured" where that tells them apart, else the schedules or machines.
  std::string side(std::size_t run) const {
    const Timeline &a = timeline(0), &b = timeline(1);
    if (a.source != b.source) return std::string(to_text(timeline(run).source));
    if (a.schedule != b.schedule) return printable(timeline(run).schedule, 16);
    if (a.machine != b.machine) return printable(timeline(run).machine, 16);
    if (a.conditions != b.conditions)
      return timeline(run).conditions.empty() ? "as usual"
                                              : printable(timeline(run).conditions, 24);
    return run == 0 ? "first" : "second";
  }

  double draw_head() {
    const Timeline& t = timeline(0);
    if (runs_.size() == 1) {
      picture_.title = fmt::format("{}, {}, {}", named(t), counted(workers_, "worker"),
                                   facts(t, runs_[0].times));
      line_of_words(26, 15, ink::black, true,
                    fmt::format("{}, {}", named(t), counted(workers_, "worker")));
      line_of_words(
          43, 11, ink::grey, false,
          fmt::format("{}; {}{}", described(t.problem), to_text(t.source), conditions_of(t)));
      line_of_words(63, 12, ink::black, true, facts(t, runs_[0].times));
      return 92;
    }
    const double ratio = static_cast<double>(runs_[1].times.makespan.value) /
                         static_cast<double>(runs_[0].times.makespan.value);
    picture_.title =
        fmt::format("{} and {}: {} and {}", side(0), side(1), duration(runs_[0].times.makespan),
                    duration(runs_[1].times.makespan));
    std::string heading = named(timeline(0));
    if (named(timeline(1)) != heading) heading += " and " + named(timeline(1));
    line_of_words(26, 15, ink::black, true,
                  fmt::format("{}, {}: {:+.1f} % in time", heading, counted(workers_, "worker"),
                              100 * (ratio - 1)));
    line_of_words(43, 11, ink::grey, false, described(t.problem));
    for (std::size_t r = 0; r < 2; ++r)
      line_of_words(63 + 16 * static_cast<double>(r), 12, ink::black, true, side(r));
    const double beside =
        kEdge + 16 + std::max(text_width(side(0), 12, true), text_width(side(1), 12, true));
    for (std::size_t r = 0; r < 2; ++r)
      words(beside, 63 + 16 * static_cast<double>(r), 12, ink::black, Anchor::Start, true,
            facts(timeline(r), runs_[r].times));
    return 108;
  }

  double name_at() const { return bands_ ? kEdge : kEdge + size_.words + 6; }
  std::string row_name(std::uint32_t row) const {
    if (first_of(row) + 1 == last_of(row)) return fmt::format("worker {}", first_of(row));
    return fmt::format("workers {} to {}", first_of(row), last_of(row) - 1);
  }

  void lay_out_rows(double top) {
    double widest = 0;
    for (std::uint32_t r = 0; r < rows_; ++r)
      widest = std::max(widest, text_width(row_name(r), size_.words));
    if (runs_.size() == 2) {
      side_at_ = name_at() + widest + 8;
      widest += 8 + std::max(text_width(side(0), side_size()), text_width(side(1), side_size()));
    }
    axis_.left = name_at() + widest + 8;
    axis_.right = options_.width - kEdge - 44;
    double y = top;
    strips_.resize(rows_);
    for (std::uint32_t row = 0; row < rows_; ++row) {
      for (std::size_t r = 0; r < runs_.size(); ++r) {
        const Strip s{y, size_.bar, moves_ ? size_.lane : 0};
        strips_[row].push_back(s);
        y += s.height() + (r + 1 < runs_.size() ? 1.5 : 0);
      }
      y += size_.gap;
    }
  }

  // Where all workers begin each step at about the same time, steps can be marked for all at once.
  void find_steps() {
    if (bands_ || runs_.size() != 1) return;
    constexpr double kApart = 0.02;                            // of the makespan
    std::vector<std::pair<std::int64_t, std::int64_t>> range;  // earliest and latest, by step
    for (std::uint32_t w = 0; w < workers_; ++w) {
      Step seen = ~0u;
      for (const std::uint32_t id : runs_[0].compute[w]) {
        const TimelineTask& t = timeline(0).tasks[id];
        if (!is_attend(t.kind) || t.step == seen) continue;
        seen = t.step;
        if (t.step > 4096) return;
        if (t.step >= range.size()) range.resize(t.step + 1, {-1, -1});
        auto& [low, high] = range[t.step];
        low = low < 0 ? t.start_ps : std::min(low, t.start_ps);
        high = std::max(high, t.start_ps);
      }
    }
    std::int64_t before = -1;
    for (const auto& [low, high] : range) {
      if (low < 0) continue;
      if (static_cast<double>(high - low) > kApart * static_cast<double>(axis_.end_ps)) return;
      if (low <= before) return;
      before = high;
    }
    for (Step s = 0; s < range.size(); ++s)
      if (range[s].first >= 0) step_starts_.emplace_back(s, range[s].first);
  }

  void draw_steps(double top, double bottom) {
    double free = 0;
    for (const auto& [step, at] : step_starts_) {
      const double x = axis_.x(at);
      picture_.shapes.emplace_back(
          Stroke{{{x, top - 6}, {x, bottom}}, ink::grey, 0.6, true, false});
      const std::string text = free == 0 ? fmt::format("step {}", step) : fmt::format("{}", step);
      if (x < free || x + 4 + text_width(text, 9) > axis_.right) continue;
      words(x + 2, top - 8, 9, ink::grey, Anchor::Start, false, text);
      free = x + 2 + text_width(text, 9) + 6;
    }
  }

  double side_size() const { return std::min(9.0, size_.bar); }

  void draw_row(std::uint32_t row) {
    const Strip& first = strips_[row].front();
    const Strip& last = strips_[row].back();
    const double bottom = last.y + last.compute;
    const double middle = (first.y + bottom) / 2;
    // Rows thinner than their words have a name here and there.
    const double pitch = last.y + last.height() + size_.gap - first.y;
    const auto every = static_cast<std::uint32_t>(std::max(1.0, (size_.words + 2) / pitch + 0.99));
    if (row % every == 0) {
      if (!bands_) {
        Box swatch{
            kEdge, middle - size_.words / 2, size_.words, size_.words, {}, Hatch::None, {}, 1, {}};
        swatch.fill = worker_colour(first_of(row), workers_);
        picture_.shapes.emplace_back(swatch);
      }
      words(name_at(), middle + size_.words * 0.36, size_.words, ink::black, Anchor::Start, false,
            row_name(row));
      words(options_.width - kEdge, middle + 3.2, std::min(size_.words, 10.0), ink::grey,
            Anchor::End, false, row_number(row));
    }
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const Strip& s = strips_[row][r];
      if (runs_.size() == 2 && s.compute >= 7)
        words(side_at_, s.y + s.compute / 2 + side_size() * 0.36, side_size(), ink::grey,
              Anchor::Start, false, side(r));
      if (bands_) {
        draw_band(runs_[r], first_of(row), last_of(row), s, axis_, picture_.shapes);
      } else {
        draw_worker(runs_[r], first_of(row), s, axis_, runs_.size() == 1 && step_starts_.empty(),
                    options_.critical_path, picture_.shapes);
      }
    }
    if (row == 0)
      words(options_.width - kEdge, first.y - 8, 9, ink::grey, Anchor::End, false,
            runs_.size() == 2 ? "computing" : "attending");
  }

  // What stands at the right: the share of its time a worker attends, or how much more of it the
  // second run computes.
  std::string row_number(std::uint32_t row) const {
    double part[2] = {0, 0};
    for (std::size_t r = 0; r < runs_.size(); ++r)
      for (std::uint32_t w = first_of(row); w < last_of(row); ++w) {
        const WorkerTimes& t = runs_[r].times.workers[w];
        part[r] += static_cast<double>(t.attending.value);
        if (runs_.size() == 2) part[r] += static_cast<double>(t.overhead.value);
      }
    if (runs_.size() == 2)
      return part[0] > 0 ? fmt::format("{:+.1f} %", 100 * (part[1] / part[0] - 1)) : "";
    return fmt::format("{:.0f} %", 100 * part[0] / static_cast<double>(axis_.end_ps) /
                                       (last_of(row) - first_of(row)));
  }

  void draw_path() {
    std::vector<Strip> by_worker;
    for (const auto& row : strips_) by_worker.push_back(row[0]);
    draw_path_arrows(runs_[0], by_worker, axis_, picture_.shapes);
  }

  LegendUse legend() const {
    LegendUse use;
    use.bands = bands_;
    use.moves = moves_;
    use.workers = workers_;
    for (const Shape& s : picture_.shapes) {
      const auto* box = std::get_if<Box>(&s);
      use.critical = use.critical || (box && box->outline == ink::black);
      const auto* label = std::get_if<Label>(&s);
      use.labels =
          use.labels || (label && label->anchor == Anchor::Middle && label->text[0] == 'q');
      use.gradients = use.gradients ||
                      (label && label->anchor == Anchor::Middle && label->text.starts_with("dq") &&
                       label->text.find(" k") != std::string::npos);
      use.numbered = use.numbered || (label && label->size == kStepSize);
    }
    for (const Run& run : runs_) {
      for (std::uint32_t i = 0; i < workers_; ++i) {
        if (!shows(i)) continue;
        const WorkerTimes& w = run.times.workers[i];
        use.waiting = use.waiting || w.waiting.value > axis_.end_ps / 500;
        use.out_of_work = use.out_of_work || w.out_of_work.value > axis_.end_ps / 500;
      }
      for (std::size_t i = 0; i < run.timeline->tasks.size(); ++i) {
        const TimelineTask& t = run.timeline->tasks[i];
        if (t.end_ps <= t.start_ps || !shows(t.worker)) continue;
        use.helping = use.helping || (is_attend(t.kind) && t.queries != t.worker);
        use.overhead = use.overhead || (!is_attend(t.kind) && !is_transfer(t.kind));
        if (is_transfer(t.kind)) {
          const Colour cargo = cargo_colour(t.makes);
          use.keys = use.keys || cargo == ink::keys;
          use.queries = use.queries || cargo == ink::queries;
          use.results = use.results || cargo == ink::results;
        }
        use.waits = use.waits || (!bands_ && is_transfer(t.kind) &&
                                  (axis_.x(run.moving_from[i]) - axis_.x(t.start_ps) >= kPosted ||
                                   axis_.x(t.end_ps) - axis_.x(run.moving_until[i]) >= kPosted));
      }
    }
    return use;
  }

  // The tasks of one plan that differ most, numbered in the chart; of two plans, the kinds of task.
  double draw_differences(double y) {
    constexpr std::size_t kCalledOut = 5;
    const Comparison c =
        compare(timeline(0), timeline(1), 4 * kCalledOut * (options_.worker ? workers_ : 1));
    std::vector<std::string> lines;
    const auto line = [&](const std::string& what, Picoseconds a, Picoseconds b) {
      const std::string change =
          a.value > 0 ? fmt::format(" ({:+.1f} %)", 100.0 * static_cast<double>((b - a).value) /
                                                        static_cast<double>(a.value))
                      : "";
      lines.push_back(fmt::format("{}: {} and {}{}", what, duration(a), duration(b), change));
    };
    if (c.same_plan) {
      for (const ComparedTask& w : c.worst) {
        const TimelineTask& t = timeline(0).tasks[w.task];
        if (t.kind == TaskKind::Send || !shows(t.worker)) continue;  // a receive says the same
        if (lines.size() == kCalledOut) break;
        if (!bands_) call_out(w.task, lines.size() + 1);
        line(fmt::format("{}   {}, worker {}, step {}", lines.size() + 1, short_name(t), t.worker,
                         t.step),
             w.took[0], w.took[1]);
      }
    } else {
      for (const ComparedPart& p : c.classes)
        if (!p.name.starts_with("send") && (p.time[0].value > 0 || p.time[1].value > 0))
          line(fmt::format("all {}", p.name), p.time[0], p.time[1]);
    }
    words(kEdge, y + 10, 10, ink::black, Anchor::Start, true,
          c.same_plan ? lines.empty() ? "No task differs" : "Tasks that differ most"
                      : "Time in each kind of task");
    double at = y + 10;
    for (const std::string& text : lines) line_of_words(at += 14, 10, ink::black, false, text);
    return at - y + 8;
  }

  void call_out(std::uint32_t task, std::size_t number) {
    for (std::size_t r = 0; r < 2; ++r) {
      const TimelineTask& t = timeline(r).tasks[task];
      const Strip& s = strips_[t.worker - options_.worker.value_or(0)][r];
      const double size = 8, side = 11;
      double x = std::max(axis_.x(t.start_ps), axis_.left) + side / 2;
      double y = s.y + side / 2;
      if (is_transfer(t.kind)) {
        x = std::min((axis_.x(t.start_ps) + axis_.x(t.end_ps)) / 2, axis_.right - side / 2);
        y = s.y + s.compute + 1 + s.lane / 2;
      }
      Box box{x - side / 2, y - side / 2, side, side, ink::white, Hatch::None, ink::black, 1, {}};
      // Beside those that are there, and in place of a label.
      while (std::any_of(called_.begin(), called_.end(),
                         [&](const Box& other) { return overlap(box, other); }))
        box.x += box.x + 2 * side < axis_.right ? side : -8 * side;
      called_.push_back(box);
      std::erase_if(picture_.shapes, [&](const Shape& shape) {
        const auto* label = std::get_if<Label>(&shape);
        return label && overlap(bounds(*label), box);
      });
      picture_.shapes.emplace_back(box);
      words(box.x + side / 2, y + size * 0.36, size, ink::black, Anchor::Middle, true,
            std::to_string(number));
    }
  }

  const GanttOptions options_;
  const std::uint32_t workers_;
  std::vector<Run> runs_;
  TimeAxis axis_;
  bool moves_ = false, bands_ = false;
  std::uint32_t per_row_ = 1, rows_ = 1;
  Sizes size_{};
  double side_at_ = 0;
  std::vector<std::vector<Strip>> strips_;  // by row, then by run
  std::vector<std::pair<Step, std::int64_t>> step_starts_;
  std::vector<Box> called_;  // what is called out by a number
  Picture picture_;
};

}  // namespace

Picture gantt(const Timeline& t, const GanttOptions& options) {
  return Chart({&t}, options).draw();
}

Picture gantt(const Timeline& first, const Timeline& second, const GanttOptions& options) {
  for (const Timeline* t : {&first, &second}) refuse_incomplete(*t);
  return Chart({&first, &second}, options).draw();
}

}  // namespace ringsched
