// A worker as bars: its compute lane, and below it what comes in and what goes out.
#include <algorithm>
#include <iterator>

#include "internal.hpp"

namespace ringsched {

namespace {

// With more messages than this, only attends have pointer texts, or the file would be large.
constexpr std::size_t kTold = 130;
constexpr double kVisible = 0.35;   // points; what is narrower is widened to this
constexpr double kOfLane = 0.92;    // what a message's bar takes of its lane
constexpr double kLeastTall = 7;    // the least height of a message's bar that has words
constexpr double kWithWords = 9;    // the least height of a bar that has a label
constexpr double kWithNumber = 18;  // ... and a step number besides

// Bars too narrow to distinguish are drawn once.
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

// Words on stripes are hard to read.
Box plate_of(const Label& words, Colour paper) {
  Box plate = bounds(words);
  plate.x -= 1.5;
  plate.width += 3;
  plate.y -= 1;
  plate.height += 2;
  plate.fill = paper;
  return plate;
}

std::size_t kind_of(const TimelineTask& attend) {
  return (is_backward(attend.kind) ? 2 : 0) + (attend.queries == attend.other ? 1 : 0);
}

void label_bar(const Box& bar, const Timeline& run, std::uint32_t id, const LabelSizes& sizes,
               bool numbered, double least_text, bool fades, std::vector<Shape>& out) {
  const double size = sizes.of(run.tasks[id]);
  if (size <= 0) return;
  const TimelineTask& t = run.tasks[id];
  const std::string text = short_name(run, id, sizes.with_parts());
  const double width = text_width(text, size);
  const Colour paper = bar.fill.value_or(ink::white);
  const Colour ink = fades ? ink::grey : text_on(paper);
  Label name{bar.x + bar.width / 2,
             bar.y + bar.height / 2 + size * 0.36,
             size,
             ink,
             Anchor::Middle,
             false,
             text};
  const std::string step = std::to_string(t.step);
  const double beside = text_width(step, kStepSize) + 4;
  const bool with_step = numbered && kStepSize >= least_text && bar.height >= kWithNumber &&
                         width + 2 * beside + 4 <= bar.width;
  if (bar.hatch != Hatch::None) out.emplace_back(plate_of(name, paper));
  out.emplace_back(std::move(name));
  if (with_step)
    out.emplace_back(
        Label{bar.x + 3, bar.y + kStepSize + 0.5, kStepSize, ink, Anchor::Start, false, step});
}

void draw_compute(const SortedRun& run, std::uint32_t worker, const Strip& s, const TimeAxis& axis,
                  const LabelSizes& sizes, bool numbered, const DrawnPath& path,
                  std::vector<Shape>& out) {
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
    if (path.fades(id)) bar.fill = faded(*bar.fill);
    if (attends && task.queries != worker) bar.hatch = Hatch::Diagonal;
    if (attends || run.messages <= kTold) bar.about = about(run, id);
    if (path.has(id)) {
      Box frame = bar;
      frame.fill.reset();
      frame.hatch = Hatch::None;
      frame.about.clear();
      frame.outline = ink::black;
      frame.outline_width = s.compute >= kWithWords && path.look == PathLook::Outline ? 2 : 1;
      if (frame.width >= 2) outlines.emplace_back(frame);
    }
    if (attends) label_bar(bar, t, id, sizes, numbered, axis.least_text, path.fades(id), words);
    (attends ? out : overhead).emplace_back(std::move(bar));
  }
  const double right = axis.x(axis.runs_ps);
  if (until < axis.runs_ps && has_more(t, worker)) {  // it waited when the run was given up
    Box b{
        axis.x(until), s.y, right - axis.x(until), s.compute, ink::waiting, Hatch::None, {}, 1, {}};
    if (s.compute >= kWithWords) b.hatch = Hatch::Dots;
    out.emplace_back(b);
  } else if (until < axis.runs_ps) {  // nothing left to do: a line, and no colour
    const double from = axis.x(until) + 2;
    if (from < right)
      out.emplace_back(Stroke{
          {{from, s.y + s.compute / 2}, {right, s.y + s.compute / 2}}, ink::rule, 1, true, false});
  }
  std::move(overhead.begin(), overhead.end(), std::back_inserter(out));
  std::move(outlines.begin(), outlines.end(), std::back_inserter(out));
  std::move(words.begin(), words.end(), std::back_inserter(out));
}

// Which of how many sub-rows each message gets, so that simultaneous ones are stacked.
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

void label_message(const Box& bar, const Timeline& run, std::uint32_t task, double least_text,
                   std::vector<Shape>& out) {
  const double size = std::min(9.0, bar.height * 0.85);
  const std::string name = short_name(run, task),
                    text =
                        run.exchange(task) ? name : name.substr(name.find(' ') + 1);  // "kv3 to 5"
  if (bar.height < kLeastTall || size < least_text || text_width(text, size) + 4 > bar.width)
    return;
  Label words{bar.x + bar.width / 2,
              bar.y + bar.height / 2 + size * 0.36,
              size,
              text_on(*bar.fill),
              Anchor::Middle,
              false,
              text};
  if (bar.hatch != Hatch::None) out.emplace_back(plate_of(words, *bar.fill));
  out.emplace_back(std::move(words));
}

// Where messages go below the bars of a worker.
struct Placed {
  std::uint32_t task = 0, row = 0, rows = 1;
  double top = 0, tall = 0;
};
struct Messages {
  std::vector<Placed> in, out;
};

// A member of an exchange both gives and gets: one bar over both lanes, if nothing else is there at
// that time.
Messages placed(const SortedRun& run, std::uint32_t worker, const Strip& s) {
  const Timeline& t = *run.timeline;
  const double top = s.y + s.compute + 1;
  const auto in_lane = [&](const std::vector<std::uint32_t>& tasks, double y) {
    std::vector<Placed> all;
    for (const Stacked& k : stacked(t, tasks))
      all.push_back({k.task, k.row, k.rows, y + s.lane / k.rows * k.row, s.lane / k.rows});
    return all;
  };
  Messages m{in_lane(run.in[worker], top), in_lane(run.out[worker], top + s.lane + 1)};
  auto in = m.in.begin();  // both are sorted alike
  std::erase_if(m.out, [&](const Placed& out) {
    if (!is_exchange(t.tasks[out.task].kind)) return false;
    in = std::find_if(in, m.in.end(), [&](const Placed& p) { return p.task == out.task; });
    if (in == m.in.end() || in->rows > 1 || out.rows > 1) return false;
    in->tall = 2 * s.lane + 1;
    return true;
  });
  return m;
}

void draw_lane(const SortedRun& run, const std::vector<Placed>& messages, const TimeAxis& axis,
               const DrawnPath& path, std::vector<Shape>& out) {
  const Timeline& t = *run.timeline;
  std::vector<std::pair<Colour, std::vector<Box>>> by_colour;  // what is alike stands together
  const auto boxes = [&](Colour c) -> std::vector<Box>& {
    for (auto& [colour, list] : by_colour)
      if (colour == c) return list;
    return by_colour.emplace_back(c, std::vector<Box>()).second;
  };
  std::vector<Shape> words;
  Thinner thin;
  for (const Placed& s : messages) {
    const TimelineTask& x = t.tasks[s.task];
    const Colour cargo = cargo_colour(t.value(x));
    const Colour colour = path.fades(s.task) ? faded(cargo) : cargo;
    const double tall = s.tall, top = s.top;
    const double x0 = axis.x(x.start_ps), moving = axis.x(run.moving_from[s.task]),
                 moved = std::max(axis.x(run.moving_until[s.task]), moving), x1 = axis.x(x.end_ps);
    if (thin.skip(x0, x1, static_cast<int>(x.makes.value) * 64 + static_cast<int>(s.row))) continue;
    // Before the other end is posted, and until the rest of the group is complete: a line, not a
    // bar.
    const double middle = top + tall / 2;
    for (const auto& [from, to] : {std::pair{x0, moving}, std::pair{moved, x1}})
      if (to - from >= kPosted)
        out.emplace_back(Stroke{{{from, middle}, {to, middle}},
                                mixed(colour, ink::black, 0.25),
                                std::min(1.0, tall / 2),
                                false,
                                false});
    if (run.moving_until[s.task] <= run.moving_from[s.task]) continue;
    Box bar{
        moving, top, std::max(moved - moving, kVisible), tall * kOfLane, colour, Hatch::None, {},
        1,      {}};
    if (cargo == ink::queries) bar.hatch = Hatch::Diagonal;
    if (cargo == ink::results) {
      bar.y += bar.height / 4;
      bar.height /= 2;
    }
    if (run.messages <= kTold) bar.about = about(run, s.task);
    if (is_exchange(x.kind) && path.has(s.task) && bar.width >= 5) {
      bar.outline = ink::black;
      bar.outline_width = std::min(1.5, bar.height / 4);
    }
    label_message(bar, t, s.task, axis.least_text, words);
    boxes(colour).push_back(std::move(bar));
  }
  for (auto& [colour, list] : by_colour)
    for (Box& bar : list) out.emplace_back(std::move(bar));
  std::move(words.begin(), words.end(), std::back_inserter(out));
}

// Beside bars of exchanges that are too narrow for words, in the row of the first of the workers:
// "all-to-all q, kv".
class NarrowExchanges {
 public:
  NarrowExchanges(const SortedRun& run, std::uint32_t worker, const Messages& m, const Strip& s,
                  const TimeAxis& axis)
      : run_(run),
        t_(*run.timeline),
        worker_(worker),
        axis_(axis),
        size_(std::clamp((2 * s.lane + 1) * 0.75, std::max(6.0, axis.least_text), 9.0)) {
    for (const auto* list : {&m.in, &m.out})
      for (const Placed& p : *list) all_.push_back(p);
    std::ranges::stable_sort(all_, {}, [&](const Placed& p) { return t_.tasks[p.task].start_ps; });
  }

  void name(std::vector<Shape>& out) const {
    double written = axis_.left;  // up to where there are words
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!is_narrow(all_[i])) continue;
      std::size_t end = i + 1;
      while (end < all_.size() && is_narrow(all_[end]) && left(end) - right(end - 1) < 3) ++end;
      const std::string text = names(i, end);
      const double width = text_width(text, size_) + 8;
      const double y = all_[i].top + all_[i].tall / 2 + size_ * 0.36;
      double before = written;
      for (std::size_t k = 0; k < i; ++k) before = std::max(before, right(k));
      const double after = end < all_.size() ? left(end) : axis_.right;
      if (right(end - 1) + width <= after) {
        out.emplace_back(
            Label{right(end - 1) + 4, y, size_, ink::grey, Anchor::Start, false, text});
        written = right(end - 1) + width;
      } else if (left(i) - width >= before) {
        out.emplace_back(Label{left(i) - 4, y, size_, ink::grey, Anchor::End, false, text});
      }
      i = end - 1;
    }
  }

 private:
  double left(std::size_t i) const { return axis_.x(t_.tasks[all_[i].task].start_ps); }
  double right(std::size_t i) const { return axis_.x(t_.tasks[all_[i].task].end_ps); }

  bool is_narrow(const Placed& p) const {
    const TimelineExchange* const e = t_.exchange(p.task);
    if (!e || p.tall < 5 || p.rows > 1) return false;
    for (std::uint32_t id = e->first.value; id < e->end(); ++id)
      if (t_.tasks[id].worker < worker_) return false;
    const double moves = axis_.x(run_.moving_until[p.task]) - axis_.x(run_.moving_from[p.task]);
    return p.tall * kOfLane < kLeastTall || moves < text_width(short_name(t_, p.task), size_) + 4;
  }

  std::string names(std::size_t first, std::size_t end) const {
    std::string text, form;
    for (std::size_t i = first; i < end; ++i) {
      const std::string name = short_name(t_, all_[i].task);
      const std::size_t space = name.rfind(' ');
      if (!text.empty()) text += ", ";
      text += name.substr(0, space) == form ? name.substr(space + 1) : name;
      form = name.substr(0, space);
    }
    return text;
  }

  const SortedRun& run_;
  const Timeline& t_;
  const std::uint32_t worker_;
  const TimeAxis& axis_;
  const double size_;
  std::vector<Placed> all_;  // by start
};

}  // namespace

double middle_of(const SortedRun& run, std::uint32_t task, bool incoming, const Strip& s) {
  const Messages m = placed(run, run.timeline->tasks[task].worker, s);
  for (const Placed& k : incoming ? m.in : m.out)
    if (k.task == task) return k.top + k.tall / 2;
  return s.y + s.compute + 1 + (incoming ? 0 : s.lane + 1) + s.lane / 2;
}

Colour faded(Colour c) { return mixed(c, ink::white, 0.65); }

LabelSizes::LabelSizes(const SortedRun& run, std::optional<std::uint32_t> only_worker,
                       double height, const TimeAxis& axis) {
  constexpr double kBeside = 4;    // points
  constexpr double kStripes = 12;  // beside the words on a hatched bar, so that it looks hatched
  const double least = std::max(6.5, axis.least_text);  // of words that can be read
  const Timeline& t = *run.timeline;
  const auto fit = [&](bool with_parts) {
    bool all = true;
    with_parts_ = with_parts;
    std::ranges::fill(
        sizes_, height < kWithWords ? 0 : std::max(std::min(11.0, height * 0.62), axis.least_text));
    for (std::uint32_t w = 0; w < run.compute.size(); ++w)
      for (const std::uint32_t id : run.compute[w]) {
        const TimelineTask& task = t.tasks[id];
        if (!is_attend(task.kind) || (only_worker && *only_worker != w)) continue;
        double& size = sizes_[kind_of(task)];
        if (size <= 0) continue;
        const double room = axis.x(task.end_ps) - axis.x(task.start_ps) - kBeside -
                            (task.queries != w ? kStripes : 0);
        const double width = text_width(short_name(t, id, with_parts), size);
        if (width > room) size *= room / width;
        if (size < least) size = 0;
        all = all && size > 0;
      }
    return all;
  };
  if (!fit(true) && !t.parts.empty()) fit(false);
  // One size for both kinds of a pass, if both are labelled.
  for (const std::size_t pass : {std::size_t{0}, std::size_t{2}}) {
    double &a = sizes_[pass], &b = sizes_[pass + 1];
    if (a > 0 && b > 0) a = b = std::min(a, b);
  }
}

void LabelSizes::share_with(LabelSizes& other) {
  for (std::size_t i = 0; i < std::size(sizes_); ++i)
    sizes_[i] = other.sizes_[i] = std::min(sizes_[i], other.sizes_[i]);
  with_parts_ = other.with_parts_ = with_parts_ && other.with_parts_;
}

double LabelSizes::of(const TimelineTask& attend) const { return sizes_[kind_of(attend)]; }

void draw_worker(const SortedRun& run, std::uint32_t worker, const Strip& s, const TimeAxis& axis,
                 const LabelSizes& sizes, bool numbered, const DrawnPath& path,
                 std::vector<Shape>& out) {
  draw_compute(run, worker, s, axis, sizes, numbered, path, out);
  if (s.lane <= 0) return;
  const Messages m = placed(run, worker, s);
  draw_lane(run, m.in, axis, path, out);
  draw_lane(run, m.out, axis, path, out);
  if (!run.timeline->exchanges.empty()) NarrowExchanges(run, worker, m, s, axis).name(out);
}

void draw_exchanges(const SortedRun& run, const DrawnPath& path, const std::vector<Strip>& strips,
                    const TimeAxis& axis, std::vector<Shape>& out) {
  const Timeline& t = *run.timeline;
  for (const TimelineExchange& e : t.exchanges) {
    std::int64_t from = 0, until = 0;
    std::vector<std::uint32_t> workers;
    for (std::uint32_t id = e.first.value; id < e.end(); ++id) {
      from = std::max(from, run.moving_from[id]);
      until = std::max(until, run.moving_until[id]);
      workers.push_back(t.tasks[id].worker);
    }
    std::ranges::sort(workers);
    const double x0 = axis.x(from), x1 = axis.x(until);
    if (x1 - x0 < kVisible || strips[workers[0]].lane <= 0) continue;
    const auto top = [&](std::uint32_t w) { return strips[w].y + strips[w].compute + 1; };
    const auto bottom = [&](std::uint32_t w) { return strips[w].y + strips[w].height(); };
    const Colour cargo = cargo_colour(t.value(t.tasks[e.first.value]));
    const Colour colour = path.fades(e.first.value) ? faded(cargo) : cargo;
    const Colour pale = mixed(ink::white, colour, 0.35);
    // A band between neighbouring workers, and a line past the rows of others.
    const double line = std::min(x0 + 2 + 3 * (workers[0] % 8), (x0 + x1) / 2);
    for (std::size_t i = 1; i < workers.size(); ++i) {
      const std::uint32_t a = workers[i - 1], b = workers[i];
      if (b == a + 1)
        out.emplace_back(
            Box{x0, bottom(a), x1 - x0, top(b) - bottom(a), pale, Hatch::None, {}, 1, {}});
      else
        out.emplace_back(Stroke{{{line, bottom(a)}, {line, top(b)}}, colour, 1.2, false, false});
    }
  }
}

}  // namespace ringsched
