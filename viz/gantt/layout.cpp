// Where things are in a Gantt chart, and how large they are.
#include <fmt/format.h>

#include <algorithm>

#include "chart.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/compare.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kMostRows = 64;
constexpr std::uint32_t kMostBands = 16;
constexpr std::size_t kMostBars = 24'000;  // in rows; a page has no room for more
constexpr double kLeastWidth = 400, kMostWidth = 10'000;

}  // namespace

GanttChart::Sizes GanttChart::sizes(std::size_t rows) {
  if (rows <= 4) return {34, 8, 13, 12};
  if (rows <= 8) return {28, 6, 10, 11};
  if (rows <= 16) return {20, 4.5, 7, 11};
  if (rows <= 32) return {13, 3, 4, 10};
  return {8, 2, 3, 8};
}

namespace {

// Rows that a page with less room has instead of the usual ones, lower and lower; then bands of
// workers; and then no list of differences.
struct Squeezed {
  double bar, lane, gap, words;
  std::uint32_t bands = 0;  // at most; 0: rows of workers
  bool differences = true;
};
constexpr Squeezed kSqueezed[] = {
    {20, 4.5, 7, 11},         {13, 3, 4, 10},           {11, 2.5, 3, 9},          {8, 2, 3, 8},
    {6, 1.5, 2, 8},           {4.5, 1, 1.5, 8},         {12, 2, 4, 10, 16},       {12, 2, 4, 10, 8},
    {12, 2, 4, 10, 8, false}, {12, 2, 4, 10, 4, false}, {9, 1.5, 3, 10, 4, false}};

}  // namespace

std::size_t GanttChart::squeezes() { return std::size(kSqueezed); }

// Returns whether this changes anything.
bool GanttChart::squeeze(std::size_t level) {
  const Squeezed& to = kSqueezed[level];
  if (to.bands == 0 && (bands_ || to.bar >= size_.bar)) return false;
  // Bands have no tasks, so they have no path.
  const bool path = options_.path.value_or(PathLook::None) != PathLook::None;
  if (to.bands > 0 && (path || 2 * to.bands > workers_)) return false;
  size_ = {to.bar, to.lane, to.gap, to.words};
  differences_ = to.differences;
  if (to.bands > 0) {
    bands_ = true;
    choose_rows(to.bands);
  }
  return true;
}

GanttChart::GanttChart(std::vector<const Timeline*> timelines, const GanttOptions& options,
                       std::optional<std::size_t> squeezed)
    : options_(options),
      width_(options.page.fixed() ? options.page.units() : options.width),
      tight_(options.page.fixed() && !options.page.heading),
      workers_(timelines[0]->problem.workers) {
  axis_.least_text = options.page.least();
  if (!options.page.fixed() && !(options.width >= kLeastWidth && options.width <= kMostWidth))
    fail("--width is {}; use {} to {}", options.width, kLeastWidth, kMostWidth);
  if (timelines.size() == 2) refuse_different_problems(*timelines[0], *timelines[1]);
  axis_.unit = timelines[0]->unit;
  std::size_t bars = 0;
  for (const Timeline* t : timelines) {
    refuse_empty(*t);
    runs_.emplace_back(*t);
    bars += t->tasks.size();
    axis_.runs_ps = std::max(axis_.runs_ps, t->makespan().value);
    axis_.end_ps = std::max(axis_.end_ps, axis_.runs_ps);
    if (t->interval && !options.worker)
      axis_.end_ps = std::max(axis_.end_ps, (*t->interval)[1].value);
    moves_ = moves_ || runs_.back().moves;
  }
  if (options.worker) {
    if (*options.worker >= workers_)
      fail("no worker {}; the timeline has workers 0 to {}", *options.worker, workers_ - 1);
    size_ = {44, 17, 12, 12};
    row_starts_ = {*options.worker, *options.worker + 1};
    return;
  }
  bands_ = workers_ > kMostRows || bars > kMostBars;
  size_ = bands_ ? Sizes{30, 4, 8, 11} : sizes(workers_ * runs_.size() * (tight_ ? 2 : 1));
  choose_rows(kMostBands);
  is_squeezed_ = squeezed && squeeze(*squeezed);
  size_.words = std::max(size_.words, axis_.least_text);
}

// Neighbouring bands that are alike are one.
void GanttChart::choose_rows(std::uint32_t most_bands) {
  row_starts_.clear();
  const std::uint32_t each = bands_ ? (workers_ + most_bands - 1) / most_bands : 1;
  WorkerRange before;
  for (std::uint32_t w = 0; w < workers_; w += each) {
    const WorkerRange now{w, std::min(workers_, w + each)};
    if (bands_ && w > 0 && alike(before, now)) continue;
    row_starts_.push_back(w);
    before = now;
  }
  row_starts_.push_back(workers_);
}

bool GanttChart::alike(WorkerRange a, WorkerRange b) const {
  TimeAxis axis = axis_;
  axis.right = width_;
  return std::ranges::all_of(runs_,
                             [&](const SortedRun& run) { return are_alike(run, a, b, axis); });
}

// Whether this row stands for workers that all do the same.
bool GanttChart::is_of_alike(std::uint32_t row) const {
  const std::uint32_t first = first_of(row);
  for (std::uint32_t w = first + 1; w < last_of(row); ++w)
    if (!alike({first, first + 1}, {w, w + 1})) return false;
  return last_of(row) > first + 1;
}

namespace {

// What distinguishes two names: cut, but not where they are still the same.
std::string apart(const std::string& text, const std::string& other, std::size_t most) {
  const auto same = static_cast<std::size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
  if (text.size() <= most || same + 8 <= most) return printable(text, most);
  return "..." + printable(text.substr(same - std::min<std::size_t>(same, 4)), most - 3);
}

// The parameters of a schedule that the other does not have; "default" if there are none.
std::string own_parameters(const std::string& name, const std::string& other) {
  std::string out;
  for (std::size_t at = name.find(':'); at < name.size();) {
    const std::size_t end = std::min(name.find(':', at + 1), name.size());
    if ((other + ":").find(name.substr(at, end - at) + ":") == std::string::npos)
      out += name.substr(out.empty() ? at + 1 : at, end - at - (out.empty() ? 1 : 0));
    at = end;
  }
  return out.empty() ? "default" : out;
}

}  // namespace

// "predicted" and "measured" if that distinguishes them, else the schedules or machines.
std::string GanttChart::side(std::size_t run) const {
  const Timeline &a = timeline(0), &b = timeline(1);
  if (a.source != b.source) return std::string(to_text(timeline(run).source));
  if (a.schedule != b.schedule) {
    const std::string &name = timeline(run).schedule, &other = timeline(1 - run).schedule;
    const bool alike =
        a.schedule.substr(0, a.schedule.find(':')) == b.schedule.substr(0, b.schedule.find(':'));
    if (alike) return apart(own_parameters(name, other), own_parameters(other, name), 20);
    return apart(name, other, 16);
  }
  if (a.machine != b.machine) return apart(timeline(run).machine, timeline(1 - run).machine, 16);
  if (a.conditions != b.conditions)
    return timeline(run).conditions.empty()
               ? "as usual"
               : apart(timeline(run).conditions, timeline(1 - run).conditions, 24);
  return run == 0 ? "first" : "second";
}

std::string GanttChart::row_name(std::uint32_t row) const {
  if (tight_) return range_text(first_of(row), last_of(row) - 1);
  if (first_of(row) + 1 == last_of(row)) return fmt::format("worker {}", first_of(row));
  return fmt::format("workers {} to {}{}", first_of(row), last_of(row) - 1,
                     is_of_alike(row) ? ", alike" : "");
}

void GanttChart::lay_out_rows(double top) {
  double widest = 0;
  for (std::uint32_t r = 0; r < rows(); ++r)
    widest = std::max(widest, text_width(row_name(r), size_.words));
  if (runs_.size() == 2) {
    side_at_ = name_at() + widest + 8;
    widest += 8 + std::max(text_width(side(0), side_size()), text_width(side(1), side_size()));
  }
  axis_.left = name_at() + widest + (tight_ ? 4 : 8);
  if (tight_) axis_.left = std::max(axis_.left, edge() + text_width("worker", 9) + 4);
  axis_.right = width_ - edge() - (tight_ && runs_.size() == 1 ? 32 : 44);
  double y = top;
  strips_.resize(rows());
  for (std::uint32_t row = 0; row < rows(); ++row) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const Strip s{y, size_.bar, moves_ ? size_.lane : 0};
      strips_[row].push_back(s);
      y += s.height() + (r + 1 < runs_.size() ? 1.5 : 0);
    }
    y += size_.gap;
  }
}

// If all workers begin each step at about the same time, steps can be marked for all at once.
void GanttChart::find_steps() {
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
    if (static_cast<double>(high - low) > kApart * static_cast<double>(axis_.runs_ps)) return;
    if (low <= before) return;
    before = high;
  }
  for (Step s = 0; s < range.size(); ++s)
    if (range[s].first >= 0) step_starts_.emplace_back(s, range[s].first);
}

}  // namespace ringsched
