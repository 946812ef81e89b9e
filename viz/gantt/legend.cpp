// The time axis below a chart, and its legend.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "chart.hpp"
#include "plot/axis.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr double kTickApart = 90;  // points, about; on a narrow page somewhat less

struct Unit {
  double ps;
  const char* name;
};
Unit unit_of(std::int64_t ps, TimeUnit unit) {
  if (unit == TimeUnit::Blocks) return {static_cast<double>(kBlock.value), "blocks"};
  for (const Unit u : {Unit{1e12, "s"}, Unit{1e9, "ms"}, Unit{1e6, "µs"}, Unit{1e3, "ns"}})
    if (static_cast<double>(ps) >= u.ps) return u;
  return {1, "ps"};
}

// Is this the label of an attend of the forward pass? "kv1 to 2" is one of a message.
bool names_attend(std::string_view label, bool decodes) {
  return decodes ? label[0] == 'k' && label.size() > 1 && label[1] >= '0' && label[1] <= '9'
                 : label[0] == 'q';
}

// Does it name a part of a worker's queries or keys, as "q1 k0a" and "dq1b k0" do?
bool names_part(std::string_view label) {
  while (!label.empty()) {
    std::string_view word = label.substr(0, label.find(' '));
    label.remove_prefix(std::min(label.size(), word.size() + 1));
    if (word.starts_with("dq")) word.remove_prefix(1);
    if (word.empty() || (word[0] != 'q' && word[0] != 'k')) continue;
    const std::size_t end = word.find_first_not_of("0123456789", 1);
    if (end > 1 && end < word.size() &&
        (word[end] == '.' || (word[end] >= 'a' && word[end] <= 'z')))
      return !word.substr(end).starts_with("..");
  }
  return false;
}

}  // namespace

void draw_time_axis(const TimeAxis& axis, double top, double bottom, std::vector<Shape>& out) {
  const double wide = axis.right - axis.left;
  const double ticks = std::max(1.0, wide / (wide < 400 ? 42 : kTickApart));
  auto step =
      static_cast<std::int64_t>(std::max(1.0, nice_step(static_cast<double>(axis.end_ps) / ticks)));
  if (axis.unit == TimeUnit::Blocks && axis.end_ps >= 2 * kBlock.value)
    step = std::max(step, kBlock.value);  // whole blocks
  const Unit unit = unit_of(axis.end_ps, axis.unit);
  const double in_unit = static_cast<double>(step) / unit.ps;
  const int digits = in_unit >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(in_unit) - 1e-9));
  // A column has less room beside its axis; the last number may then have the unit.
  Label title{axis.left - 10,
              bottom + 15,
              10,
              ink::grey,
              Anchor::End,
              false,
              fmt::format("time in {}", unit.name)};
  if (bounds(title).x < 0) title.text = unit.name;
  const bool named = bounds(title).x >= 0;
  if (named) out.emplace_back(title);
  for (std::int64_t at = 0; at <= axis.end_ps; at += step) {
    const double x = axis.x(at);
    out.emplace_back(Stroke{{{x, top}, {x, bottom + 4}}, ink::rule, 0.7, false, false});
    std::string text = fmt::format("{:.{}f}", static_cast<double>(at) / unit.ps, digits);
    const bool last = axis.end_ps - at < step;
    if (last && !named) text += fmt::format(" {}", unit.name);
    out.emplace_back(Label{x, bottom + 15, 10, ink::grey, Anchor::Middle, false, text});
    if (last) break;  // the sum might not fit
  }
}

double draw_whisker(const Timeline& t, std::string_view whose, const TimeAxis& axis, double y,
                    std::vector<Shape>& out) {
  constexpr double kCap = 3.5, kSize = 9;
  const auto [low, high] = *t.interval;
  const double from = axis.x(low.value), to = axis.x(high.value), at = axis.x(t.makespan().value);
  const auto line = [&](double x0, double y0, double x1, double y1, double width) {
    out.emplace_back(Stroke{{{x0, y0}, {x1, y1}}, ink::black, width, false, false});
  };
  line(from, y, to, y, 1.2);
  for (const double x : {from, to}) line(x, y - kCap, x, y + kCap, 1.2);
  line(at, y - kCap - 1, at, y + kCap + 1, 2.4);
  const std::string text =
      fmt::format("{}{}80% interval of the makespan: {} to {}", whose, whose.empty() ? "" : ": ",
                  drawn_time(low, axis.unit), drawn_time(high, axis.unit));
  // To the left of it, if there is room; otherwise at the right end of the row below.
  const bool room = from - 6 - text_width(text, kSize) > axis.left;
  const Label words = room ? Label{from - 6, y + 3, kSize, ink::black, Anchor::End, false, text}
                           : Label{axis.right, y + 14, kSize, ink::black, Anchor::End, false, text};
  Box behind = bounds(words);  // lines of the grid end beside the words
  behind.x -= 2;
  behind.width += 4;
  behind.fill = ink::white;
  out.emplace_back(std::move(behind));
  out.emplace_back(words);
  return room ? 12 : 24;
}

double draw_legend(const LegendUse& use, double left, double right, double y,
                   std::vector<Shape>& out) {
  constexpr double kIcon = 22, kTall = 11, kLine = 18, kSize = 10;
  double x = left, height = kLine;
  const auto entry = [&](const std::string& text, const auto& icon) {
    const double width = kIcon + 5 + text_width(text, kSize);
    if (x > left && x + width > right) {
      x = left;
      height += kLine;
    }
    const double line = y + height - kLine;
    icon(Box{x, line + 1, kIcon, kTall, {}, Hatch::None, {}, 1, {}});
    out.emplace_back(
        Label{x + kIcon + 5, line + 10, kSize, ink::black, Anchor::Start, false, text});
    x += width + 18;
  };
  const auto filled = [&](Colour fill, Hatch hatch = Hatch::None) {
    return [&out, fill, hatch](Box b) {
      b.fill = fill;
      b.hatch = hatch;
      out.emplace_back(b);
    };
  };
  const auto thin = [&](Colour fill) {  // as messages are
    return [&out, fill](Box b) {
      b.y += fill == ink::results ? 4 : 2.5;
      b.height = fill == ink::results ? 3 : 6;
      b.fill = fill;
      if (fill == ink::queries) b.hatch = Hatch::Diagonal;
      out.emplace_back(b);
    };
  };
  entry(use.decodes                        ? "attend: new tokens"
        : use.own_heads && use.own_queries ? "attend: own queries or heads"
        : use.own_heads                    ? "attend: own heads"
                                           : "attend: own queries",
        filled(use.bands ? ink::own : worker_colour(0, use.workers)));
  if (use.helping)
    entry(
        "help: another worker's queries",
        use.bands ? filled(ink::helping) : filled(worker_colour(1, use.workers), Hatch::Diagonal));
  if (use.overhead) entry("merge and other overhead", filled(ink::overhead));
  if (use.waiting) entry("wait", filled(ink::waiting, use.bands ? Hatch::None : Hatch::Dots));
  if (use.out_of_work)
    entry("done", [&out, &use](Box b) {
      if (use.bands) {
        b.fill = ink::white;
        b.outline = ink::rule;
        out.emplace_back(b);
        return;
      }
      const double middle = b.y + b.height / 2;
      out.emplace_back(Stroke{{{b.x, middle}, {b.x + b.width, middle}}, ink::rule, 1, true, false});
    });
  if (use.moves && use.bands)
    entry(use.messages && !use.exchanges ? "below: receive, darker for more workers"
                                         : "below: moving, darker for more workers",
          thin(mixed(ink::white, ink::results, 0.6)));
  if (use.moves && !use.bands) {
    // Only in the first entry.
    std::string where = use.messages ? " transfer (top: receive, bottom: send)" : " transfer";
    const auto cargo = [&](bool there, const char* what, Colour colour) {
      if (there) entry(what + std::exchange(where, ""), thin(colour));
    };
    cargo(use.keys, "K/V", ink::keys);
    cargo(use.queries, "query", ink::queries);
    cargo(use.results, "result", ink::results);
  }
  if (use.exchanges && !use.bands)
    entry("exchange among the joined workers", [&](Box b) {
      b.fill = mixed(ink::white, use.of_exchange, 0.35);
      out.emplace_back(b);
      b.height = 3;
      b.fill = use.of_exchange;
      out.emplace_back(b);
      b.y += kTall - b.height;
      out.emplace_back(b);
    });
  if (use.waits)
    entry(use.messages ? "transfer waits for sender or receiver" : "waiting for the other workers",
          [&](Box b) {
            const double middle = b.y + b.height / 2;
            out.emplace_back(Stroke{{{b.x, middle}, {b.x + b.width, middle}},
                                    mixed(use.of_wait, ink::black, 0.25),
                                    1,
                                    false,
                                    false});
          });
  if (use.critical)
    entry(use.fades ? "critical path; all else is pale" : "critical path", [&out, &use](Box b) {
      if (use.fades) b.fill = worker_colour(0, use.workers);
      b.outline = ink::black;
      b.outline_width = use.fades ? 1 : 2;
      out.emplace_back(b);
    });
  if (use.labels)
    entry(use.decodes ? "keys of worker 1" : "queries of 1, keys of 0", [&](const Box& b) {
      out.emplace_back(Label{b.x + b.width / 2, b.y + 9, 10, ink::black, Anchor::Middle, false,
                             use.decodes ? "k1" : "q1 k0"});
    });
  if (use.apart)
    entry("of workers 0, 2, 4 and 6", [&out](const Box& b) {
      out.emplace_back(
          Label{b.x + b.width / 2, b.y + 9, 9, ink::black, Anchor::Middle, false, "0-6/2"});
    });
  if (use.parts)
    entry(use.decodes ? "the second part of 1's keys" : "the second part of 1's queries",
          [&](const Box& b) {
            out.emplace_back(Label{b.x + b.width / 2, b.y + 9, 10, ink::black, Anchor::Middle,
                                   false, use.decodes ? "k1b" : "q1b"});
          });
  if (use.gradients)
    entry("gradients for queries of 1, keys of 0", [&out](const Box& b) {
      out.emplace_back(
          Label{b.x + b.width / 2, b.y + 9, 9, ink::black, Anchor::Middle, false, "dq1 k0"});
    });
  if (use.heads)
    entry("heads 0 to 7 only", [&out](const Box& b) {
      out.emplace_back(
          Label{b.x + b.width / 2, b.y + 9, 9, ink::black, Anchor::Middle, false, "h0-7"});
    });
  if (!use.unmarked.empty())
    entry(fmt::format("step; in step {} nothing is attended", use.unmarked), [&out](const Box& b) {
      const double middle = b.x + b.width / 2;
      out.emplace_back(
          Stroke{{{middle, b.y}, {middle, b.y + b.height}}, ink::grey, 0.6, true, false});
    });
  if (use.numbered)
    entry("in step 2", [&out](const Box& b) {
      Box corner = b;
      corner.fill = worker_colour(0, 8);
      out.emplace_back(corner);
      out.emplace_back(
          Label{b.x + 3, b.y + kStepSize + 0.5, kStepSize, ink::black, Anchor::Start, false, "2"});
    });
  return height;
}

LegendUse GanttChart::legend() const {
  LegendUse use;
  use.bands = bands_;
  use.fades = path_.look == PathLook::Fade;
  use.moves = moves_;
  use.workers = workers_;
  use.decodes = timeline(0).problem.decodes();
  std::size_t unmarked = 0;
  for (std::size_t i = 1; i < step_starts_.size(); ++i)
    for (Step s = step_starts_[i - 1].first + 1; s < step_starts_[i].first; ++s)
      if (++unmarked <= 3) use.unmarked += fmt::format("{}{}", unmarked == 1 ? "" : ", ", s);
  if (unmarked > 3) use.unmarked += " and others";
  for (const Shape& s : picture_.shapes) {
    const auto* box = std::get_if<Box>(&s);
    use.critical = use.critical || (box && box->outline == ink::black);
    const auto* label = std::get_if<Label>(&s);
    use.labels = use.labels || (label && label->anchor == Anchor::Middle &&
                                names_attend(label->text, use.decodes));
    use.apart = use.apart || (label && label->anchor == Anchor::Middle &&
                              names_attend(label->text, use.decodes) &&
                              label->text.find('/') != std::string::npos);
    use.parts = use.parts || (label && label->anchor == Anchor::Middle && names_part(label->text));
    use.gradients = use.gradients ||
                    (label && label->anchor == Anchor::Middle && label->text.starts_with("dq") &&
                     label->text.find(" k") != std::string::npos);
    use.heads = use.heads || (label && label->anchor == Anchor::Middle &&
                              label->text.find(" k") != std::string::npos &&
                              label->text.find(" h") != std::string::npos);
    use.numbered =
        use.numbered || (label && label->size == kStepSize &&
                         label->text.find_first_not_of("0123456789") == label->text.npos);
  }
  for (const SortedRun& run : runs_) {
    for (std::uint32_t i = 0; i < workers_; ++i) {
      if (!shows(i) || is_unknown(*run.timeline, i)) continue;
      const WorkerTimes& w = run.times.workers[i];
      use.waiting = use.waiting || w.waiting.value > axis_.runs_ps / 500;
      if (w.out_of_work.value > axis_.runs_ps / 500)
        (has_more(*run.timeline, i) ? use.waiting : use.out_of_work) = true;
    }
    for (std::size_t i = 0; i < run.timeline->tasks.size(); ++i) {
      const TimelineTask& t = run.timeline->tasks[i];
      if (t.end_ps <= t.start_ps || !shows(t.worker)) continue;
      if (is_attend(t.kind) && t.queries == t.worker) {
        const TaskSpan* const span = run.timeline->span(static_cast<std::uint32_t>(i));
        (span && span->queries[0] != span->queries[1] ? use.own_heads : use.own_queries) = true;
      }
      use.helping = use.helping || (is_attend(t.kind) && t.queries != t.worker);
      use.overhead = use.overhead || (!is_attend(t.kind) && !communicates(t.kind));
      if (communicates(t.kind)) {
        const Colour cargo = cargo_colour(run.timeline->value(t));
        if (is_exchange(t.kind) && !use.exchanges) use.of_exchange = cargo;
        (is_exchange(t.kind) ? use.exchanges : use.messages) = true;
        use.keys = use.keys || cargo == ink::keys;
        use.queries = use.queries || cargo == ink::queries;
        use.results = use.results || cargo == ink::results;
      }
      const bool waits = !bands_ && moves_ && communicates(t.kind) &&
                         (axis_.x(run.moving_from[i]) - axis_.x(t.start_ps) >= kPosted ||
                          axis_.x(t.end_ps) - axis_.x(run.moving_until[i]) >= kPosted);
      if (waits && !use.waits) use.of_wait = cargo_colour(run.timeline->value(t));
      use.waits = use.waits || waits;
    }
  }
  return use;
}

}  // namespace ringsched
