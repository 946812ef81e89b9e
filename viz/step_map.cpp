#include "ringsched/viz/step_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kMostWorkers = 64;
constexpr std::uint32_t kMostWithWords = 16;
constexpr std::size_t kMostStepsWithWords = 32;
constexpr std::size_t kPanelsInARow = 4;
constexpr double kMargin = 16, kTightMargin = 10, kTop = 84, kTightTop = 34, kMatrix = 150,
                 kLine = 14, kFont = 10, kBar = 54, kShortBar = 36;
constexpr double kTitle = 15, kTightTitle = 12;  // size
constexpr double kBetweenPanels = 24, kBetweenPanelRows = 52;
// Of small maps, which have no words but the number of the step.
constexpr std::size_t kSmallInARow = 8;
constexpr double kSmall = 100, kLeastSmall = 50, kBetweenSmall = 12, kAboveSmall = 16,
                 kSmallBars = 24, kMostSmallBar = 4;

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

// "0-7" of "kv0-7" or "h0-7": what stands behind the letters.
std::string_view behind_letters(std::string_view word) {
  const std::size_t at = word.find_first_of("0123456789");
  return at == word.npos ? std::string_view() : word.substr(at);
}

// Explains the first label of heads and the first of several workers, if there are any: "h0-7:
// heads 0 to 7." A label of parts of a share, such as "3b-d", is neither.
class LabelNotes {
 public:
  void look_at(std::string_view text) {
    while (!text.empty()) {
      const std::string_view word = text.substr(0, text.find_first_of(" ,;"));
      text.remove_prefix(std::min(text.size(), word.size() + 1));
      const std::string_view numbers = behind_letters(word);
      const std::size_t digits = std::min(numbers.find_first_not_of("0123456789"), numbers.size());
      if (numbers.empty() || word.size() == numbers.size()) continue;
      const std::string first(numbers.substr(0, digits));
      const std::string_view rest = numbers.substr(digits);
      if (word[0] == 'h' && heads_.empty()) {
        heads_ = rest.empty() ? fmt::format("{}: head {}.", word, first)
                              : fmt::format("{}: heads {} to {}.", word, first, rest.substr(1));
      } else if (word[0] != 'h' && workers_.empty()) {
        workers_ = several(word, first, rest);
      }
    }
  }
  std::string text() const {
    return workers_ + (workers_.empty() || heads_.empty() ? "" : " ") + heads_;
  }

 private:
  static std::string several(std::string_view word, const std::string& first,
                             std::string_view rest) {
    if (rest.starts_with("+"))
      return fmt::format("{}: of workers {} and {}.", word, first, rest.substr(1));
    if (rest.starts_with(".."))
      return fmt::format("{}: of some of the workers {} to {}.", word, first, rest.substr(2));
    if (rest.size() < 2 || rest[0] != '-' || rest[1] < '0' || rest[1] > '9') return {};
    const std::size_t slash = rest.find('/');
    const std::string_view last = rest.substr(1, slash == rest.npos ? slash : slash - 1);
    return slash == rest.npos ? fmt::format("{}: of workers {} to {}.", word, first, last)
                              : fmt::format("{}: of workers {} to {}, {} apart.", word, first, last,
                                            rest.substr(slash + 1));
  }

  std::string workers_, heads_;
};

std::string row_text(const Share& share) {
  const std::string attends = share.attends.empty() ? "idle" : joined(share.attends);
  return share.receives.empty() ? attends : attends + "; gets " + joined(share.receives);
}

std::string heading_of(const StepOfAll& step) {
  const auto busy =
      std::ranges::count_if(step.workers, [](const Share& share) { return share.work > 0; });
  std::vector<std::string> head = step.exchanges;
  if (busy > 0) head.push_back(fmt::format("{} of {} workers compute", busy, step.workers.size()));
  return joined(head);
}

class StepDrawing {
 public:
  // `matrix`: of maps with words, at most; 0: small maps.
  StepDrawing(const Plan& plan, const Page& page, double matrix)
      : plan_(plan),
        page_(page),
        margin_(page.heading ? kMargin : kTightMargin),
        steps_(steps_of(plan)),
        matrix_(matrix),
        small_(matrix == 0) {
    const std::size_t n = plan.layout.chunks.size();
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](auto c) { return plan.layout.chunks[c].start; });
    place_.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) place_[order[i]] = i;
    for (const auto& [number, step] : steps_)
      for (const Share& share : step.workers) most_ = std::max(most_, share.work);
    if (small_) {
      arrange_small();
    } else {
      measure();
      if (page.fixed()) arrange(page.units() - 2 * margin_);
    }
    cell_ = matrix_ / static_cast<double>(n);
  }

  Picture draw() {
    double left = margin_, bottom = 0, top = first_top();
    std::size_t drawn = 0, seen = 0;
    for (const auto& [number, step] : steps_) {
      if (seen++ % every_ != 0) continue;
      if (drawn > 0 && drawn % in_a_row_ == 0) {
        left = margin_;
        top = bottom + (small_ ? kBetweenSmall + kAboveSmall : kBetweenPanelRows);
      }
      bottom = std::max(
          bottom, small_ ? small_panel(number, step, left, top) : panel(number, step, left, top));
      out_.width = std::max(out_.width, left + widest_ + margin_);
      left += widest_ + (small_ ? kBetweenSmall : kBetweenPanels);
      ++drawn;
    }
    if (page_.fixed()) out_.width = page_.units();
    words(bottom);
    return on_page(std::move(out_), page_);
  }

 private:
  double first_top() const {
    const double top = page_.heading ? kTop : kTightTop + (page_.title.empty() ? 0 : 16);
    return more_title() + (small_ ? top - (kTightTop - kAboveSmall) : top);
  }

  // As few maps in a row as the page has room for, so that they are large; if it has not even room
  // for many, only every second step, or every third, ...
  void arrange_small() {
    const double room = page_.fixed() ? page_.units() - 2 * margin_
                                      : kSmallInARow * (kSmall + kBetweenSmall) - kBetweenSmall;
    const double most = page_.height > 0 ? page_.height / page_.unit() - first_top() - foot() : 0;
    for (every_ = 1;; ++every_) {
      const std::size_t panels = (steps_.size() + every_ - 1) / every_;
      for (in_a_row_ = page_.fixed() ? 2 : kSmallInARow;; ++in_a_row_) {
        const auto n = static_cast<double>(in_a_row_);
        matrix_ = widest_ = (room - kBetweenSmall * (n - 1)) / n;
        if (matrix_ < kLeastSmall) break;
        const std::size_t rows = (panels + in_a_row_ - 1) / in_a_row_;
        const double tall = matrix_ + 4 + small_bars() + kBetweenSmall + kAboveSmall;
        if (most <= 0 || static_cast<double>(rows) * tall <= most || panels == 1) return;
      }
    }
  }
  double small_bar() const { return std::min(kMostSmallBar, kSmallBars / plan_.problem.workers); }
  double small_bars() const { return small_bar() * plan_.problem.workers; }
  double foot() {
    words(0);
    const double height = out_.height;
    out_ = {};
    return height;
  }

  // How wide a panel is.
  void measure() {
    widest_ = matrix_;
    for (const auto& [number, step] : steps_) {
      if (!split_) widest_ = std::max(widest_, text_width(heading_of(step), kFont));
      for (const Share& share : step.workers)
        for (const std::string& text : texts_of(share))
          widest_ = std::max(widest_, bar_ + 24 + text_width(text, kFont));
    }
  }

  // Two panels in a row, if they fit when the words are on two lines.
  void arrange(double room) {
    const auto fit = [&] {
      return static_cast<std::size_t>((room + kBetweenPanels) / (widest_ + kBetweenPanels));
    };
    if (fit() < 2 && steps_.size() > 1) {
      split_ = true;
      bar_ = kShortBar;
      matrix_ = std::min(matrix_, (room - kBetweenPanels) / 2);
      measure();
    }
    widest_ = std::min(widest_, room);
    in_a_row_ = std::clamp<std::size_t>(fit(), 1, kPanelsInARow);
  }

  // What it computes and what it receives, on one line or on two.
  std::vector<std::string> texts_of(const Share& share) const {
    if (!split_) return {row_text(share)};
    std::vector<std::string> out = {share.attends.empty() ? "idle" : joined(share.attends)};
    if (!share.receives.empty()) out.push_back("gets " + joined(share.receives));
    return out;
  }

  void say(double x, double y, Colour colour, bool bold, std::string text) {
    out_.shapes.emplace_back(Label{x, y, kFont, colour, Anchor::Start, bold, std::move(text)});
  }

  double panel(Step number, const StepOfAll& step, double left, double top) {
    say(left, top - 20, ink::black, true, fmt::format("step {}", number));
    const bool fits = step.exchanges.empty() || text_width(heading_of(step), kFont) <= widest_;
    say(left, top - 7, ink::grey, false,
        shortened(fits ? heading_of(step) : joined(step.exchanges), kFont, widest_));
    out_.shapes.emplace_back(Box{left, top, matrix_, matrix_, {}, Hatch::None, ink::rule, 1, {}});
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
    double y = top + matrix_ + 6;
    const bool rests = std::ranges::all_of(step.workers, [](const Share& share) {
      return share.attends.empty() && share.receives.empty();
    });
    if (rests) return y;
    const bool two = split_ && std::ranges::any_of(step.workers, [](const Share& share) {
                       return !share.receives.empty();
                     });
    for (std::uint32_t w = 0; w < step.workers.size(); ++w, y += two ? 2 * kLine : kLine)
      row(w, step.workers[w], left, y);
    return y;
  }

  // The map, and below it the work of each worker.
  double small_panel(Step number, const StepOfAll& step, double left, double top) {
    say(left, top - 4, ink::black, true, fmt::format("step {}", number));
    out_.shapes.emplace_back(Box{left, top, matrix_, matrix_, {}, Hatch::None, ink::rule, 1, {}});
    draw_small_map(number, left, top);
    const double y = top + matrix_ + 4, bar = small_bar();
    out_.shapes.emplace_back(
        Box{left, y, matrix_, small_bars(), ink::waiting, Hatch::None, {}, 1, {}});
    for (std::uint32_t w = 0; w < step.workers.size(); ++w)
      if (step.workers[w].work > 0)
        out_.shapes.emplace_back(Box{left,
                                     y + bar * w,
                                     matrix_ * step.workers[w].work / most_,
                                     bar,
                                     worker_colour(w, plan_.problem.workers),
                                     Hatch::None,
                                     {},
                                     1,
                                     {}});
    return y + small_bars();
  }

  // Cells of one colour that stand side by side are one box. A block that several workers share by
  // heads is cut into bands.
  void draw_small_map(Step number, double left, double top) {
    const std::size_t n = place_.size(), bands = bands_of_heads();
    std::vector<std::optional<Colour>> cells(n * bands * n);
    const bool backward = plan_.problem.pass == Pass::Backward;
    for (const Task& t : plan_.tasks) {
      if (!is_attend(t.kind) || is_backward(t.kind) != backward || t.step > number) continue;
      const Colour worker = worker_colour(t.worker_index, plan_.problem.workers);
      const Colour fill = t.step == number ? worker : mixed(ink::white, worker, 0.3);
      const Piece& piece = plan_.piece(t);
      const std::size_t all = plan_.program[piece.value].all_columns().count;
      const std::size_t first = piece.columns.first * bands / all,
                        end = piece.columns.end() * bands / all;
      const Region queries = plan_.regions[plan_.rows(t).value], keys = plan_.regions[t.keys.value];
      for (std::uint32_t q = queries.first.value; q < queries.end(); ++q)
        for (std::uint32_t k = keys.first.value; k < keys.end(); ++k)
          if (is_visible(q, k))
            for (std::size_t b = first; b < end; ++b)
              cells[(place_[q] * bands + b) * n + place_[k]] = fill;
    }
    const double tall = cell_ / static_cast<double>(bands);
    for (std::size_t row = 0; row < n * bands; ++row)
      for (std::size_t k = 0, end = 0; k < n; k = end) {
        const std::optional<Colour> fill = cells[row * n + k];
        for (end = k + 1; end < n && cells[row * n + end] == fill;) ++end;
        if (fill)
          out_.shapes.emplace_back(Box{left + cell_ * static_cast<double>(k),
                                       top + tall * static_cast<double>(row),
                                       cell_ * static_cast<double>(end - k),
                                       tall,
                                       *fill,
                                       Hatch::None,
                                       {},
                                       1,
                                       {}});
      }
  }

  // Into how many bands of equal height the heads of blocks are cut.
  std::size_t bands_of_heads() const {
    std::size_t most = 1;
    for (const Task& t : plan_.tasks) {
      if (!is_attend(t.kind)) continue;
      const Piece& piece = plan_.piece(t);
      const std::size_t all = plan_.program[piece.value].all_columns().count;
      if (piece.columns.count > 0)
        most = std::max(most, (all + piece.columns.count - 1) / piece.columns.count);
    }
    return most;
  }

  bool is_visible(std::uint32_t q, std::uint32_t k) {
    const std::size_t n = place_.size();
    if (visible_.empty()) {
      visible_.resize(n * n);
      for (std::uint32_t i = 0; i < n; ++i)
        for (std::uint32_t j = 0; j < n; ++j)
          visible_[i * n + j] =
              plan_.problem.mask.tile(plan_.layout.ranges({{i}, 1}), plan_.layout.ranges({{j}, 1}))
                  .form != TileForm::Empty;
    }
    return visible_[q * n + k];
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
    box(left + 18, bar_, ink::waiting, {});
    if (share.work > 0)
      box(left + 18, bar_ * share.work / most_, colour,
          fmt::format("load of worker {}: {:.0f}% of the largest", worker,
                      100 * share.work / most_));
    const bool idle = share.attends.empty();
    for (std::string text : texts_of(share)) {
      say(left + bar_ + 24, y + kLine - 3.5, idle ? ink::grey : ink::black, false,
          shortened(std::move(text), kFont, widest_ - bar_ - 24));
      y += kLine;
    }
  }

  void words(double bottom) {
    out_.title = heading();
    const auto line = [&](double y, double size, Colour colour, bool bold, std::string text) {
      if (!page_.fixed())
        out_.width = std::max(out_.width, 2 * margin_ + text_width(text, size, bold));
      out_.shapes.emplace_back(
          Label{margin_, y, size, colour, Anchor::Start, bold, std::move(text)});
    };
    const auto lines = [&](double& y, double apart, double size, bool bold,
                           const std::string& text) {
      for (const std::string& one : lines_of(text, size, bold)) {
        line(y, size, ink::black, bold, one);
        y += apart;
      }
    };
    double at = page_.heading ? 26 : 12;
    if (page_.heading) {
      lines(at, 1.2 * kTitle, kTitle, true, heading());
      line(43 + more_title(), 11, ink::grey, false,
           fmt::format("{}, {}{}", counted(plan_.problem.workers, "worker"),
                       described(plan_.problem),
                       plan_.problem.pass == Pass::Both ? "; the backward pass is not drawn" : ""));
    } else if (!page_.title.empty()) {
      lines(at, 1.2 * kTightTitle, kTightTitle, true, heading());
    }
    double y = bottom + 16;
    out_.height = bottom + 2;
    if (small_ && page_.key) {
      scale(y);
      y += 14;
      out_.height = y - 6;
    }
    if (!page_.legend) return;
    for (const std::string& note : notes())
      if (!note.empty()) lines(y, 14, kFont, false, note);
    out_.height = y + 4;
  }

  // Which colour is which worker, where maps do not say it themselves.
  void scale(double y) {
    const std::uint32_t n = plan_.problem.workers;
    say(margin_, y, ink::black, false, "worker 0");
    double x = margin_ + text_width("worker 0", kFont) + 5;
    const double wide = std::min(9.0, 120.0 / n);
    for (std::uint32_t w = 0; w < n; ++w, x += wide)
      out_.shapes.emplace_back(Box{
          x, y - 8, wide, 9, worker_colour(w, n), Hatch::None, {}, 1, fmt::format("worker {}", w)});
    say(x + 5, y, ink::black, false, fmt::format("worker {}", n - 1));
  }

  std::vector<std::string> notes() const {
    bool later = false, computed = false;  // blocks of earlier steps are there
    for (const auto& [number, step] : steps_) {
      later = later || computed;
      for (const Share& share : step.workers) computed = computed || share.work > 0;
    }
    const std::string blocks = fmt::format(
        "Rows are queries, columns are keys. A block has the colour of the worker that computes "
        "it{}",
        later ? "; blocks of earlier steps are pale." : ".");
    if (small_)
      return {blocks, "Bars: the work of each worker in this step, from worker 0 down.",
              every_ > 1 ? fmt::format("Drawn: one of every {} steps.", every_) : ""};
    LabelNotes labels;
    for (const auto& [number, step] : steps_)
      for (const Share& share : step.workers) labels.look_at(row_text(share));
    return {blocks + " The strip on the left shows the owner of the queries.",
            "Bars: the work of each worker in this step. " + example_of_attend(), labels.text(),
            what_moves()};
  }

  // "q3b k1: queries of worker 3 with keys of worker 1 (3b: a part of its share)." Of the labels
  // here, one of two workers and of a part, if there is one.
  std::string example_of_attend() const {
    std::string example;
    int best = -1;
    for (const auto& [number, step] : steps_)
      for (const Share& share : step.workers)
        for (const std::string& text : share.attends) {
          const std::size_t space = text.find(' ');
          if (space == text.npos) continue;
          const std::string q_word = text.substr(0, space),
                            k_word = text.substr(space + 1, text.find(' ', space + 1) - space - 1),
                            q = only_worker(q_word), k = only_worker(k_word);
          if (q.empty() || k.empty()) continue;
          const bool q_part = q_word.size() > 1 + q.size(), k_part = k_word.size() > 1 + k.size();
          const int worth = (q != k ? 2 : 0) + (q_part || k_part ? 1 : 0);
          if (worth <= best) continue;
          best = worth;
          example = fmt::format("{} {}: queries of worker {} with keys of worker {}", q_word,
                                k_word, q, k);
          if (q_part || k_part)
            example +=
                fmt::format(" ({}: a part of its share)", (q_part ? q_word : k_word).substr(1));
        }
    return example.empty() ? "q: queries, k: keys." : example + ".";
  }
  // "3" of "q3", "q3b" or "k3 h0-1"; nothing of "q0-7", "q0+4" or "q0..4".
  static std::string only_worker(std::string_view word) {
    const std::string_view numbers = behind_letters(word.substr(0, word.find(' ')));
    const std::size_t end = std::min(numbers.find_first_not_of("0123456789"), numbers.size());
    const bool one = end == numbers.size() || (numbers[end] >= 'a' && numbers[end] <= 'z');
    return one ? std::string(numbers.substr(0, end)) : "";
  }

  // "gets: what the worker receives before it computes. kv: keys and values."
  std::string what_moves() const {
    std::vector<std::string> symbols, words;
    bool receives = false;
    for (const Task& t : plan_.tasks) {
      if (!steps_.contains(t.step) || (!is_receive(t.kind) && !is_exchange(t.kind))) continue;
      receives = receives || is_receive(t.kind);
      const Value& v = plan_.program[plan_.value(t)];
      if (std::ranges::find(symbols, v.symbol) != symbols.end()) continue;
      symbols.push_back(v.symbol);
      words.push_back(fmt::format("{}: {}", v.symbol,
                                  v.symbol == "kv"  ? "keys and values"
                                  : v.symbol == "o" ? "partial results"
                                  : v.words.empty() ? v.name
                                                    : v.words));
    }
    std::string text = receives ? "gets: what the worker receives before it computes." : "";
    if (!words.empty()) text += (text.empty() ? "" : " ") + joined(words) + ".";
    return text;
  }

  std::vector<std::string> lines_of(const std::string& text, double size, bool bold) const {
    if (!page_.fixed()) return {text};
    return wrapped(text, size, page_.units() - 2 * margin_, bold);
  }
  std::string heading() const {
    const std::string name =
        plan_.schedule.empty() ? "plan" : printable(plan_.schedule, kMostOfName);
    if (!page_.title.empty()) return page_.title;
    return name + ", step by step" + (plan_.problem.pass == Pass::Both ? ": forward pass" : "");
  }
  // Of the title after its first line.
  double more_title() const {
    if (!page_.heading && page_.title.empty()) return 0;
    const double size = page_.heading ? kTitle : kTightTitle;
    const std::size_t lines = lines_of(heading(), size, true).size();
    return lines < 2 ? 0 : 1.2 * size * static_cast<double>(lines - 1);
  }

  const Plan& plan_;
  const Page& page_;
  const double margin_;
  const std::map<Step, StepOfAll> steps_;
  std::vector<std::uint32_t> place_;  // of each chunk, by its first token
  double cell_ = 0, most_ = 0, matrix_, bar_ = kBar, widest_ = 0;
  bool split_ = false;  // the words of a row are on two lines
  const bool small_;
  std::vector<bool> visible_;  // by query chunk and key chunk
  std::size_t in_a_row_ = kPanelsInARow, every_ = 1;
  Picture out_;
};

}  // namespace

Picture step_map(const Plan& plan, const Page& page) {
  if (plan.tasks.empty()) fail("the plan has no tasks: nothing to draw");
  if (plan.problem.decodes())
    fail("a plan that decodes has no picture by step; draw its block map instead");
  if (plan.problem.workers > kMostWorkers)
    fail("a picture by step of {} workers is too large (limit {})", plan.problem.workers,
         kMostWorkers);
  std::set<Step> steps;
  for (const Task& t : plan.tasks) steps.insert(t.step);
  if (plan.problem.workers <= kMostWithWords && steps.size() <= kMostStepsWithWords)
    for (const double matrix : {kMatrix, 0.75 * kMatrix, 0.5 * kMatrix}) {
      Picture p = StepDrawing(plan, page, matrix).draw();
      if (page.height <= 0 || p.height <= page.height) return p;
    }
  return StepDrawing(plan, page, 0).draw();
}

}  // namespace ringsched
