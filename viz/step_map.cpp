#include "ringsched/viz/step_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kMostWorkers = 16;
constexpr std::size_t kMostSteps = 32;
constexpr std::size_t kPanelsInARow = 4;
constexpr double kMargin = 16, kTop = 84, kMatrix = 150, kLine = 14, kFont = 10, kBar = 54;
constexpr double kBetweenPanels = 24, kBetweenPanelRows = 52;

// What one worker does in one step.
struct Share {
  double work = 0;  // visible pairs times heads
  std::vector<std::string> attends, receives;
};

struct StepOfAll {
  std::vector<Share> workers;
  std::vector<std::string> exchanges;  // "all-to-all of q", before it computes
};

std::string attend_text(const Plan& plan, const Task& t) {
  return fmt::format("q{} k{}{}", share_label(plan, plan.rows(t)), share_label(plan, t.keys),
                     heads_label(plan, t));
}

std::string receive_text(const Plan& plan, const Task& t) {
  return fmt::format("{}{} from {}", plan.program[plan.value(t)].symbol,
                     share_label(plan, plan.rows(t)), plan.tasks[t.peer.value].worker_index);
}

// The steps in which something moves or is attended. In a plan of both passes: the forward ones.
std::map<Step, StepOfAll> steps_of(const Plan& plan) {
  const bool backward = plan.problem.pass == Pass::Backward;
  Step last = plan.problem.pass == Pass::Both ? 0 : ~Step{0};
  if (last == 0)
    for (const Task& t : plan.tasks)
      if (is_attend(t.kind) && !is_backward(t.kind)) last = std::max(last, t.step + 1);
  std::map<Step, StepOfAll> steps;
  const auto at = [&](Step s) -> StepOfAll& {
    StepOfAll& step = steps[s];
    step.workers.resize(plan.problem.workers);
    return step;
  };
  for (const Task& t : plan.tasks) {
    if (t.step > last) continue;
    if (is_attend(t.kind) && is_backward(t.kind) == backward) {
      Share& share = at(t.step).workers[t.worker_index];
      const Work& work = plan.works[t.work.value];
      share.work += static_cast<double>(work.pairs.value) * work.columns;
      share.attends.push_back(attend_text(plan, t));
    } else if (is_receive(t.kind)) {
      at(t.step).workers[t.worker_index].receives.push_back(receive_text(plan, t));
    } else if (is_exchange(t.kind)) {
      const std::string what = fmt::format("{} of {}", to_text(form_of(plan, plan.exchange(t))),
                                           plan.program[plan.value(t)].symbol);
      std::vector<std::string>& known = at(t.step).exchanges;
      if (std::ranges::find(known, what) == known.end()) known.push_back(what);
    }
  }
  return steps;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string row_text(const Share& share) {
  const std::string attends = share.attends.empty() ? "idle" : joined(share.attends);
  return share.receives.empty() ? attends : attends + "; gets " + joined(share.receives);
}

class StepDrawing {
 public:
  explicit StepDrawing(const Plan& plan) : plan_(plan), steps_(steps_of(plan)) {
    const std::size_t n = plan.layout.chunks.size();
    cell_ = kMatrix / static_cast<double>(n);
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](auto c) { return plan.layout.chunks[c].start; });
    place_.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) place_[order[i]] = i;
    for (const auto& [number, step] : steps_)
      for (const Share& share : step.workers) {
        most_ = std::max(most_, share.work);
        widest_ = std::max(widest_, kBar + 24 + text_width(row_text(share), kFont));
      }
  }

  Picture draw() {
    double left = kMargin, top = kTop, bottom = 0;
    std::size_t drawn = 0;
    for (const auto& [number, step] : steps_) {
      if (drawn > 0 && drawn % kPanelsInARow == 0) {
        left = kMargin;
        top = bottom + kBetweenPanelRows;
      }
      bottom = std::max(bottom, panel(number, step, left, top));
      out_.width = std::max(out_.width, left + widest_ + kMargin);
      left += widest_ + kBetweenPanels;
      ++drawn;
    }
    words(bottom);
    return std::move(out_);
  }

 private:
  void say(double x, double y, Colour colour, bool bold, std::string text) {
    out_.shapes.emplace_back(Label{x, y, kFont, colour, Anchor::Start, bold, std::move(text)});
  }

  double panel(Step number, const StepOfAll& step, double left, double top) {
    const auto busy =
        std::ranges::count_if(step.workers, [](const Share& share) { return share.work > 0; });
    say(left, top - 20, ink::black, true, fmt::format("step {}", number));
    std::vector<std::string> head = step.exchanges;
    if (busy > 0)
      head.push_back(fmt::format("{} of {} workers compute", busy, step.workers.size()));
    say(left, top - 7, ink::grey, false, joined(head));
    widest_ = std::max(widest_, text_width(joined(head), kFont));
    out_.shapes.emplace_back(Box{left, top, kMatrix, kMatrix, {}, Hatch::None, ink::rule, 1, {}});
    const bool backward = plan_.problem.pass == Pass::Backward;
    for (const Task& t : plan_.tasks)
      if (is_attend(t.kind) && is_backward(t.kind) == backward && t.step <= number)
        attend(t, t.step == number, left, top);
    for (std::uint32_t c = 0; c < place_.size(); ++c)
      out_.shapes.emplace_back(
          Box{left - 7,
              top + cell_ * place_[c],
              4,
              cell_,
              worker_colour(plan_.layout.owner({c}).value, plan_.problem.workers),
              Hatch::None,
              {},
              1,
              {}});
    double y = top + kMatrix + 6;
    const bool rests = std::ranges::all_of(step.workers, [](const Share& share) {
      return share.attends.empty() && share.receives.empty();
    });
    if (rests) return y;
    for (std::uint32_t w = 0; w < step.workers.size(); ++w, y += kLine)
      row(w, step.workers[w], left, y);
    return y;
  }

  void attend(const Task& t, bool now, double left, double top) {
    const Region queries = plan_.regions[plan_.rows(t).value], keys = plan_.regions[t.keys.value];
    for (std::uint32_t q = queries.first.value; q < queries.end(); ++q)
      for (std::uint32_t k = keys.first.value; k < keys.end(); ++k)
        block(t, q, k, now, left + cell_ * place_[k], top + cell_ * place_[q]);
  }

  // Heads lie from the top of a block to its bottom.
  void block(const Task& t, std::uint32_t q, std::uint32_t k, bool now, double x, double y) {
    const Tile tile =
        plan_.problem.mask.tile(plan_.layout.ranges({{q}, 1}), plan_.layout.ranges({{k}, 1}));
    if (tile.form == TileForm::Empty) return;
    const Piece& piece = plan_.piece(t);
    const double all = plan_.program[piece.value].all_columns().count;
    const double gap = cell_ >= 6 ? 0.5 : 0, tall = cell_ - 2 * gap;
    const double x0 = x + gap, x1 = x + cell_ - gap;
    const double y0 = y + gap + tall * piece.columns.first / all;
    const double y1 = y + gap + tall * piece.columns.end() / all;
    const Colour worker = worker_colour(t.worker_index, plan_.problem.workers);
    const Colour fill = now ? worker : mixed(ink::white, worker, 0.3);
    if (tile.form == TileForm::Causal || tile.form == TileForm::StrictlyCausal) {
      out_.shapes.emplace_back(Area{{{x0, y0}, {x1, y1}, {x0, y1}}, fill});
      return;
    }
    Box b{x0, y0, x1 - x0, y1 - y0, fill, Hatch::None, {}, 1, {}};
    b.about = fmt::format("worker {}, step {}", t.worker_index, t.step);
    out_.shapes.emplace_back(std::move(b));
  }

  // The worker's colour and number, its work as a bar, and what it computes and receives.
  void row(std::uint32_t worker, const Share& share, double left, double y) {
    const Colour colour = worker_colour(worker, plan_.problem.workers);
    const auto box = [&](double x, double width, Colour fill, std::string about) {
      out_.shapes.emplace_back(
          Box{x, y + 2, width, kLine - 4, fill, Hatch::None, {}, 1, std::move(about)});
    };
    out_.shapes.emplace_back(Label{left + 14, y + kLine - 3.5, kFont, ink::grey, Anchor::End, false,
                                   fmt::format("{}", worker)});
    box(left + 18, kBar, ink::waiting, {});
    if (share.work > 0)
      box(left + 18, kBar * share.work / most_, colour,
          fmt::format("load of worker {}: {:.0f} % of the largest", worker,
                      100 * share.work / most_));
    const bool idle = share.attends.empty();
    say(left + kBar + 24, y + kLine - 3.5, idle ? ink::grey : ink::black, false, row_text(share));
  }

  void words(double bottom) {
    const std::string name =
        plan_.schedule.empty() ? "plan" : printable(plan_.schedule, kMostOfName);
    out_.title = "Step by step: " + name;
    const auto line = [&](double y, double size, Colour colour, bool bold, std::string text) {
      out_.width = std::max(out_.width, 2 * kMargin + text_width(text, size, bold));
      out_.shapes.emplace_back(
          Label{kMargin, y, size, colour, Anchor::Start, bold, std::move(text)});
    };
    line(26, 15, ink::black, true, name + ", step by step");
    line(43, 11, ink::grey, false,
         fmt::format("{}, {}", counted(plan_.problem.workers, "worker"), described(plan_.problem)));
    double y = bottom + 16;
    for (const char* note :
         {"Rows are queries, columns are keys. A block has the colour of the worker that computes "
          "it; blocks of earlier steps are pale. The strip on the left shows the owner of the "
          "queries.",
          "Bars: the work of each worker in this step. q3 k1: queries of worker 3 with keys of "
          "worker 1 (3a, 3b: parts of its share).",
          "gets: what the worker receives before it computes. q: queries, kv: keys and values, o: "
          "partial results."}) {
      line(y, kFont, ink::black, false, note);
      y += 14;
    }
    out_.height = y + 4;
  }

  const Plan& plan_;
  const std::map<Step, StepOfAll> steps_;
  std::vector<std::uint32_t> place_;  // of each chunk, by its first token
  double cell_ = 0, most_ = 0, widest_ = kMatrix;
  Picture out_;
};

}  // namespace

Picture step_map(const Plan& plan) {
  if (plan.tasks.empty()) fail("the plan has no tasks: nothing to draw");
  if (plan.problem.decodes())
    fail("a plan that decodes has no picture by step; draw its block map instead");
  if (plan.problem.workers > kMostWorkers)
    fail("a picture by step of {} workers is too large (limit {})", plan.problem.workers,
         kMostWorkers);
  std::set<Step> steps;
  for (const Task& t : plan.tasks) steps.insert(t.step);
  if (steps.size() > kMostSteps)
    fail("a picture by step of {} steps is too large (limit {})", steps.size(), kMostSteps);
  return StepDrawing(plan).draw();
}

}  // namespace ringsched
