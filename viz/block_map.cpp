#include "ringsched/viz/block_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostChunks = 256;
constexpr std::size_t kInARow = 3;
constexpr double kEdge = 16, kBetween = 36, kBetweenRows = 66, kHead = 104, kAxis = 34;
// The same for a page whose caption says what the picture shows.
constexpr double kTightEdge = 2, kTightBetween = 14, kTightBetweenRows = 30, kTightHead = 22;
constexpr double kSide = 448, kLargestCell = 60;  // at most, of a map and of a block

struct Size {
  double width = 0, height = 0;
};

class Map {
 public:
  Map(const Plan& plan, double side, double least_text, double left, double top,
      std::vector<Shape>& out)
      : plan_(plan), least_(std::max(6.0, least_text)), left_(left), top_(top), out_(out) {
    const std::size_t n = plan.layout.chunks.size();
    cell_ = side / static_cast<double>(n);
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return plan.layout.chunks[a].start < plan.layout.chunks[b].start;
    });
    place_.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) place_[order[i]] = i;
    row_ = place_;
    rows_ = static_cast<std::uint32_t>(n);
    if (!plan.problem.decodes()) return;
    // Only new tokens have queries; several workers may attend the same.
    rows_ = 0;
    for (const std::uint32_t c : order)
      if (has_query(plan.problem, plan.layout.chunks[c].start)) row_[c] = rows_++;
    for (const Task& t : plan.tasks)
      if (is_attend(t.kind)) ++attends_of_[t.keys];
  }

  Size draw() {
    const double side = cell_ * static_cast<double>(place_.size());
    const double tall = cell_ * rows_;
    out_.emplace_back(Box{left_ + kAxis, top_, side, tall, {}, Hatch::None, ink::rule, 1, {}});
    for (const Task& t : plan_.tasks)
      if (is_attend(t.kind) && is_backward(t.kind) == (plan_.problem.pass == Pass::Backward))
        draw_attend(t);
    draw_axes(tall);
    return {kAxis + side, tall + 30};
  }
  bool helped() const { return helped_; }
  bool named() const { return named_; }
  bool halved() const { return halved_; }
  bool pale() const { return pale_; }
  bool banded() const { return banded_; }
  bool shared() const { return shared_; }

 private:
  // A block of the attend, one chunk by one chunk.
  void draw_attend(const Task& t) {
    const Region queries = plan_.regions[plan_.rows(t).value], keys = plan_.regions[t.keys.value];
    for (std::uint32_t q = queries.first.value; q < queries.end(); ++q)
      for (std::uint32_t k = keys.first.value; k < keys.end(); ++k) draw_block(t, q, k);
  }

  // Did these queries come to this worker for its help?
  bool helps(const Task& t, std::uint32_t q) const {
    return !plan_.has_own_queries(t) && plan_.layout.owner({q}).value != t.worker_index;
  }

  void draw_block(const Task& t, std::uint32_t q, std::uint32_t k) {
    const Tile tile =
        plan_.problem.mask.tile(plan_.layout.ranges({{q}, 1}), plan_.layout.ranges({{k}, 1}));
    if (tile.form == TileForm::Empty) return;
    const double gap = cell_ >= 6 ? 0.5 : 0;
    const double x0 = left_ + kAxis + cell_ * place_[k] + gap, x1 = x0 + cell_ - 2 * gap;
    double y0 = top_ + cell_ * row_[q] + gap, y1 = y0 + cell_ - 2 * gap;
    if (const auto several = attends_of_.find(t.keys);
        several != attends_of_.end() && several->second > 1) {
      const double tall = (y1 - y0) / several->second;
      y0 += tall * (t.step % several->second);
      y1 = y0 + tall;
      shared_ = true;
    }
    const Piece& piece = plan_.piece(t);
    if (piece.columns != plan_.program[piece.value].all_columns())
      return draw_heads(t, tile, {x0, y0, x1 - x0, y1 - y0, {}, Hatch::None, {}, 1, {}});
    const Colour fill = worker_colour(t.worker_index, plan_.problem.workers);
    const bool helps = this->helps(t, q);
    helped_ = helped_ || helps;
    const bool half = tile.form == TileForm::Causal || tile.form == TileForm::StrictlyCausal;
    halved_ = halved_ || half;
    pale_ = pale_ || tile.form == TileForm::Other;
    if (half) {
      out_.emplace_back(Area{{{x0, y0}, {x1, y1}, {x0, y1}}, fill});
    } else {
      Box b{x0,
            y0,
            x1 - x0,
            y1 - y0,
            share_of(tile, fill),
            helps && cell_ >= 6 ? Hatch::Diagonal : Hatch::None,
            {},
            1,
            {}};
      b.about = fmt::format("worker {}, step {}", t.worker_index, t.step);
      out_.emplace_back(std::move(b));
    }
    name_block(t, half ? x0 + cell_ * 0.32 : (x0 + x1) / 2,
               half ? y0 + cell_ * 0.72 : (y0 + y1) / 2, y1 - y0, fill, helps && !half, half);
  }

  // The share of a block that an attend of some heads has: heads lie from its top to its bottom.
  void draw_heads(const Task& t, const Tile& tile, const Box& block) {
    const Piece& piece = plan_.piece(t);
    const double all = plan_.program[piece.value].columns.count;
    const double from = piece.columns.first / all, to = piece.columns.end() / all;
    const double x0 = block.x, y0 = block.y + block.height * from, y1 = block.y + block.height * to;
    const bool half = tile.form == TileForm::Causal || tile.form == TileForm::StrictlyCausal;
    const Colour worker = worker_colour(t.worker_index, plan_.problem.workers);
    banded_ = true;
    halved_ = halved_ || half;
    pale_ = pale_ || tile.form == TileForm::Other;
    if (half) {
      out_.emplace_back(Area{{{x0, y0}, {x0 + block.width, y1}, {x0, y1}}, worker});
    } else {
      Box b{x0, y0, block.width, y1 - y0, share_of(tile, worker), Hatch::None, {}, 1, {}};
      b.about = fmt::format("worker {}, step {}, {}", t.worker_index, t.step,
                            name_of(plan_.program[piece.value].columns, piece.columns));
      out_.emplace_back(std::move(b));
    }
    const std::string text = fmt::format("{}.{}", t.worker_index, t.step);
    const double tall = y1 - y0;
    const double size = std::min({11.0, cell_ * 0.25, tall * (half ? 0.5 : 0.8)});
    if (size < least_ || text_width(text, size) > block.width * (half ? 0.5 : 0.85)) return;
    named_ = true;
    out_.emplace_back(Label{x0 + block.width * (half ? 0.3 : 0.5),
                            y0 + tall * (half ? 0.72 : 0.5) + size * 0.36, size, text_on(worker),
                            Anchor::Middle, false, text});
  }

  // As pale as the mask is sparse.
  static Colour share_of(const Tile& tile, Colour fill) {
    if (tile.form != TileForm::Other) return fill;
    return mixed(ink::white, fill,
                 0.25 + 0.75 * static_cast<double>(tile.pairs.value) /
                            (static_cast<double>(tile.rows) * static_cast<double>(tile.keys)));
  }

  // "w3" and the step, where there is room.
  void name_block(const Task& t, double x, double y, double tall, Colour paper, bool striped,
                  bool half) {
    const std::string text = fmt::format("{}.{}", t.worker_index, t.step);
    const double size = std::min({11.0, cell_ * (half ? 0.25 : 0.3), tall * 0.8});
    if (size < least_ || text_width(text, size) > cell_ * (half ? 0.6 : 0.85)) return;
    named_ = true;
    Label label{x, y + size * 0.36, size, text_on(paper), Anchor::Middle, false, text};
    if (striped) {
      Box plate = bounds(label);
      plate.x -= 1;
      plate.width += 2;
      plate.fill = paper;
      out_.emplace_back(std::move(plate));
    }
    out_.emplace_back(std::move(label));
  }

  // The owner of each row and column, as a colour and, if there is room, a number.
  void draw_axes(double tall) {
    const double bar = 7;
    for (std::uint32_t c = 0; c < place_.size(); ++c) {
      const std::uint32_t owner = plan_.layout.owner({c}).value;
      const Colour fill = worker_colour(owner, plan_.problem.workers);
      const double at = cell_ * place_[c], gap = cell_ >= 6 ? 0.5 : 0;
      const bool has_row = !plan_.problem.decodes();
      if (has_row)
        out_.emplace_back(Box{left_ + kAxis - bar - 3,
                              top_ + at + gap,
                              bar,
                              cell_ - 2 * gap,
                              fill,
                              Hatch::None,
                              {},
                              1,
                              {}});
      out_.emplace_back(Box{left_ + kAxis + at + gap,
                            top_ + tall + 3,
                            cell_ - 2 * gap,
                            bar,
                            fill,
                            Hatch::None,
                            {},
                            1,
                            {}});
      const double size = std::clamp(cell_ * 0.8, least_, 10.0);
      const double widest = text_width(fmt::format("{}", plan_.problem.workers - 1), size) + 3;
      const auto every = static_cast<std::uint32_t>(std::ceil(std::max(widest, size) / cell_));
      if (place_[c] % every != 0) continue;
      if (has_row)
        out_.emplace_back(Label{left_ + kAxis - bar - 6, top_ + at + cell_ / 2 + size * 0.36, size,
                                ink::grey, Anchor::End, false, fmt::format("{}", owner)});
      const std::string name = fmt::format("{}", owner);
      const double most = cell_ * static_cast<double>(place_.size()) - text_width(name, size) / 2;
      out_.emplace_back(Label{left_ + kAxis + std::min(at + cell_ / 2, most + kTightEdge),
                              top_ + tall + bar + 5 + size, size, ink::grey, Anchor::Middle, false,
                              name});
    }
  }

  const Plan& plan_;
  const double least_;  // size of words
  const double left_, top_;
  std::vector<Shape>& out_;
  double cell_ = 0;
  std::vector<std::uint32_t> place_;  // of each chunk, by its first token
  std::vector<std::uint32_t> row_;    // likewise, of those that have queries
  std::uint32_t rows_ = 0;
  std::map<RegionId, std::uint32_t> attends_of_;  // in decoding, by keys
  bool helped_ = false, named_ = false, halved_ = false, pale_ = false, banded_ = false,
       shared_ = false;
};

std::string layout_line(const Plan& plan) {
  const std::string& name = plan.layout.name;
  if (name == "contiguous") return "shares: consecutive tokens";
  if (name == "striped") return "shares: every W-th token";
  if (name == "zigzag") return "shares: one part from each end";
  if (name == "decode") return "shares: cached tokens evenly, new ones last";
  if (name == "halves") return "shares: consecutive tokens, in halves";
  return "shares: " + printable(name, 24);
}

// The pairs of the busiest worker, over what each would have if they were spread evenly; 0 if the
// mask hides all.
double unevenness(const Plan& plan) {
  std::vector<double> pairs(plan.problem.workers);
  for (const Task& t : plan.tasks)
    if (is_attend(t.kind))
      pairs[t.worker_index] += static_cast<double>(plan.works[t.work.value].pairs.value) *
                               plan.works[t.work.value].columns;
  const double sum = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const double most = *std::max_element(pairs.begin(), pairs.end());
  return sum > 0 ? most * static_cast<double>(pairs.size()) / sum : 0;
}

std::string balance_line(const Plan& plan) {
  const double uneven = unevenness(plan);
  return uneven > 0 ? fmt::format("the busiest worker has {:.2f}x the average work", uneven)
                    : "masked";
}

std::string name_of(const Plan& plan) {
  return plan.schedule.empty() ? "plan" : printable(plan.schedule, kMostOfName);
}

// "The busiest worker has 1.88x the average work in ring, 1.00x in balanced"
std::string balance_title(std::span<const Plan* const> plans) {
  const auto [even, uneven] =
      std::ranges::minmax_element(plans, {}, [](const Plan* plan) { return unevenness(*plan); });
  const std::string least = fmt::format("{:.2f}x", unevenness(**even)),
                    most = fmt::format("{:.2f}x", unevenness(**uneven));
  if (most == "0.00x") return "The mask hides all blocks";
  if (plans.size() == 1 && most == "1.00x")
    return fmt::format("{}: all workers have equal work", name_of(*plans[0]));
  if (plans.size() == 1) return fmt::format("{}: {}", name_of(*plans[0]), balance_line(*plans[0]));
  if (least == most && most == "1.00x") return "All workers have equal work in each schedule";
  if (least == most)
    return fmt::format("The busiest worker has {} the average work in each schedule", most);
  return fmt::format("The busiest worker has {} the average work in {}, {} in {}", most,
                     name_of(**uneven), least, name_of(**even));
}

std::string problem_line(const Problem& q) {
  const std::string some = q.decodes() ? ", " + new_tokens_text(q) : std::string();
  return fmt::format("{}, {} tokens{}, {}", counted(q.workers, "worker"), grouped(q.tokens.value),
                     some, printable(to_text(q.mask)));
}

// What some map of the picture shows and the notes must explain.
struct Shown {
  bool helped = false, named = false, halved = false, pale = false, banded = false;
  bool decodes = false, shared = false;
};

// The title's lines, and how far they are apart.
struct Title {
  std::vector<std::string> lines;
  double size = 12;

  Title(const Page& page, std::span<const Plan* const> plans) : size(page.heading ? 15 : 12) {
    const std::string text = !page.title.empty() ? page.title
                             : page.heading      ? balance_title(plans)
                                                 : std::string();
    const double edge = page.heading ? kEdge : kTightEdge;
    lines = wrapped(text, size, page.fixed() ? page.units() - 2 * edge : 1e9, true);
  }
  double apart() const { return 1.2 * size; }
  // Of the lines after the first.
  double more() const {
    return lines.size() < 2 ? 0 : apart() * static_cast<double>(lines.size() - 1);
  }
};

// Title, problem, and the notes below the maps, which end at `bottom`.
void add_words(Picture& p, const Page& page, const Title& title, const std::string& problem,
               const Shown& shown, double bottom) {
  const double edge = page.heading ? kEdge : kTightEdge;
  const auto line = [&](double y, double size, Colour colour, bool bold, std::string text) {
    const double width = text_width(text, size, bold);
    if (!page.fixed())
      p.width = std::max(p.width, 2 * edge + width);
    else
      size *= std::min(1.0, std::max(page.least() / size, (p.width - 2 * edge) / width));
    p.shapes.emplace_back(Label{edge, y, size, colour, Anchor::Start, bold, std::move(text)});
  };
  p.title = !page.title.empty() ? page.title : "Which worker computes which block: " + p.title;
  double at = page.heading ? 26 : 12;
  for (const std::string& text : title.lines) {
    line(at, title.size, ink::black, true, text);
    at += title.apart();
  }
  if (page.heading && !problem.empty()) line(43 + title.more(), 11, ink::grey, false, problem);
  double y = bottom + 16;
  const auto note = [&](const char* text) {
    line(y, 10, ink::black, false, text);
    y += 14;
  };
  if (page.legend) {
    note(shown.decodes
             ? "Rows are the new tokens, whose queries all workers have; columns are keys."
             : "Rows are queries, columns are keys, labelled with the worker that owns them.");
    note("The colour of a block is the worker that computes it.");
    if (shown.banded) note("Bands of a block are its heads, head 0 at the top.");
    if (shown.shared) note("Stripes of a block: several workers compute it, one in each step.");
    if (shown.named) note("3.1: by worker 3 in step 1.");
    if (shown.halved)
      note(shown.banded ? "Triangle: the mask keeps half of the block, or of the band."
                        : "Triangle: the mask keeps half of the block.");
    if (shown.pale) note("Pale: the mask keeps part of the block; the paler, the less.");
    if (shown.helped) note("Hatched: computed by a helper that does not own the queries.");
  }
  p.height = page.legend ? y + 4 : bottom + 2;
}

// Where the maps go: how many in a row, and how far apart.
struct Arrangement {
  std::size_t in_a_row = kInARow;
  double edge = kEdge, between = kBetween, between_rows = kBetweenRows, head = kHead, side = kSide;

  Arrangement(const Page& page, std::size_t plans) {
    if (!page.heading) {
      edge = kTightEdge;
      between = kTightBetween;
      between_rows = kTightBetweenRows;
      head = (page.title.empty() ? 4 : kTightHead) + (plans > 1 ? 16 : 0);
    }
    if (!page.fixed()) return;
    in_a_row = std::min(plans, page.units() < 500 ? kInARow - 1 : kInARow);
    const auto n = static_cast<double>(in_a_row);
    side = (page.units() - 2 * edge - (n - 1) * between) / n - kAxis;
  }
};

// With maps of this side at most.
Picture drawn_maps(std::span<const Plan* const> plans, const Page& page, double most_side) {
  Picture p;
  const Arrangement at(page, plans.size());
  const Title title(page, plans);
  double left = at.edge, top = at.head + title.more(), tallest = 0;
  if (page.fixed()) p.width = page.units();
  Shown shown;
  const bool differ = std::any_of(plans.begin(), plans.end(), [&](const Plan* plan) {
    return problem_line(plan->problem) != problem_line(plans[0]->problem);
  });
  std::size_t chunks = 0;  // of the finest: maps side by side are of one size
  for (const Plan* plan : plans) chunks = std::max(chunks, plan->layout.chunks.size());
  const double side = std::min(
      most_side,
      page.fixed() ? at.side : std::min(at.side, kLargestCell * static_cast<double>(chunks)));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = *plans[i];
    require_block_map(plan);
    if (i > 0 && i % at.in_a_row == 0) {
      left = at.edge;
      top += tallest + at.between_rows;
      tallest = 0;
    }
    Map map(plan, side, page.least(), left, top, p.shapes);
    const Size size = map.draw();
    const std::string name = name_of(plan);
    double widest = page.fixed() ? kAxis + at.side : size.width;
    const auto say = [&](double above, double font, Colour colour, const std::string& text) {
      double fits = font;
      if (page.fixed())
        fits = std::min(font, font * at.side / text_width(text, font, font > 12));
      else
        widest = std::max(widest, kAxis + text_width(text, font, font > 12));
      if (fits >= page.least())
        p.shapes.emplace_back(
            Label{left + kAxis, top - above, fits, colour, Anchor::Start, font > 12, text});
    };
    if (page.heading) {
      say(36, 13, ink::black, name);
      say(22, 10, ink::grey, layout_line(plan));
      say(9, 10, ink::grey, balance_line(plan));
      if (differ) say(50, 10, ink::grey, problem_line(plan.problem));
    } else if (plans.size() > 1) {
      say(6, 10, ink::black, name);
    }
    p.title += (p.title.empty() ? "" : ", ") + name;
    left += widest;
    if (!page.fixed()) p.width = std::max(p.width, left + at.edge);
    left += at.between;
    tallest = std::max(tallest, size.height);
    shown.helped = shown.helped || map.helped();
    shown.named = shown.named || map.named();
    shown.halved = shown.halved || map.halved();
    shown.pale = shown.pale || map.pale();
    shown.banded = shown.banded || map.banded();
    shown.shared = shown.shared || map.shared();
    shown.decodes = shown.decodes || plan.problem.decodes();
  }
  add_words(p, page, title, differ ? "" : problem_line(plans[0]->problem), shown, top + tallest);
  return on_page(std::move(p), page);
}

}  // namespace

void require_block_map(const Plan& plan) {
  if (plan.tasks.empty()) fail("the plan has no tasks: nothing to draw");
  if (const std::size_t n = plan.layout.chunks.size(); n > kMostChunks)
    fail(
        "a block map of {} chunks is too large (limit {}); use a plan with fewer workers, or fewer "
        "documents",
        n, kMostChunks);
}

Picture block_map(std::span<const Plan* const> plans, const Page& page) {
  if (plans.empty()) fail("no plan to draw");
  constexpr double kLeastSide = 90;
  const Arrangement at(page, plans.size());
  const std::size_t lines = (plans.size() + at.in_a_row - 1) / at.in_a_row;
  const auto rows = static_cast<double>(lines);
  double side = at.side;
  Picture p = drawn_maps(plans, page, side);
  // Smaller maps, where the page would else be too high.
  while (page.height > 0 && p.height > page.height && side > kLeastSide) {
    side = std::max(kLeastSide, side - (p.height - page.height) / page.unit() / rows - 1e-6);
    p = drawn_maps(plans, page, side);
  }
  return p;
}

}  // namespace ringsched
