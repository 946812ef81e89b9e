#include "ringsched/viz/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gantt/internal.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kNames = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kLeastCells = 20;

// What a cell shows: the worker whose queries are attended, or one of these.
constexpr int kDone = -1, kWaiting = -2, kOverhead = -3, kUnknown = -4;

struct Cell {
  int shows = kDone;
  bool begins = false;  // another attend begins here
};

class Rows {
 public:
  Rows(const SortedRun& run, std::size_t cells)
      : run_(run), cells_(cells), end_(run.timeline->makespan().value) {}

  std::vector<Cell> compute(std::uint32_t worker) const {
    // Each cell shows what takes most of its time; in a tie, what comes first.
    std::vector<Cell> row(cells_);
    std::vector<std::int64_t> most(cells_, 0);
    const auto offer = [&](std::int64_t start, std::int64_t end, int shows, bool begins) {
      bool first = begins;
      for (std::size_t c = cell_of(start); c < cells_ && edge(c) < end; ++c) {
        const std::int64_t part = std::min(end, edge(c + 1)) - std::max(start, edge(c));
        if (part <= most[c]) continue;
        most[c] = part;
        row[c] = {shows, first};
        first = false;
      }
    };
    std::int64_t until = 0;
    for (const std::uint32_t id : run_.compute[worker]) {
      const TimelineTask& t = run_.timeline->tasks[id];
      offer(until, t.start_ps, kWaiting, false);
      const bool attends = is_attend(t.kind);
      offer(t.start_ps, t.end_ps, attends ? t.queries : kOverhead, attends);
      until = std::max(until, t.end_ps);
    }
    const Timeline& t = *run_.timeline;
    offer(until, end_,
          is_unknown(t, worker) ? kUnknown
          : has_more(t, worker) ? kWaiting
                                : kDone,
          false);
    return row;
  }

  std::string receiving(std::uint32_t worker) const {
    std::vector<char> state(cells_, ' ');
    const auto mark = [&](std::int64_t start, std::int64_t end, char with) {
      for (std::size_t c = cell_of(start); c < cells_ && edge(c) < end; ++c)
        if (end - start > 0 && state[c] != '=') state[c] = with;
    };
    for (const std::uint32_t id : run_.in[worker]) {
      mark(run_.timeline->tasks[id].start_ps, run_.moving_from[id], '.');
      mark(run_.moving_from[id], run_.moving_until[id], '=');
    }
    std::string text;
    for (const char s : state) text += s == '=' ? "▔" : s == '.' ? "┄" : " ";
    return text;
  }

 private:
  std::int64_t edge(std::size_t cell) const {
    return static_cast<std::int64_t>(static_cast<double>(end_) * static_cast<double>(cell) /
                                     static_cast<double>(cells_));
  }
  std::size_t cell_of(std::int64_t ps) const {
    auto c = static_cast<std::size_t>(static_cast<double>(ps) / static_cast<double>(end_) *
                                      static_cast<double>(cells_));
    while (c > 0 && edge(c) > ps) --c;
    while (c + 1 < cells_ && edge(c + 1) <= ps) ++c;
    return c;
  }

  const SortedRun& run_;
  const std::size_t cells_;
  const std::int64_t end_;
};

// The nearest level of the cube of 6 x 6 x 6 colours: 0, 95, 135, 175, 215, 255.
int cube_level(std::uint8_t c) { return c < 48 ? 0 : c < 115 ? 1 : (c - 35) / 40; }

std::string painted(std::string_view text, Colour c, bool indexed) {
  if (indexed)
    return fmt::format("\033[48;5;{};38;5;234m{}\033[0m",
                       16 + 36 * cube_level(c.red) + 6 * cube_level(c.green) + cube_level(c.blue),
                       text);
  return fmt::format("\033[48;2;{};{};{};38;2;26;26;26m{}\033[0m", c.red, c.green, c.blue, text);
}

std::string text_of(const std::vector<Cell>& row, std::uint32_t workers,
                    const TerminalOptions& options) {
  std::string out;
  for (std::size_t c = 0; c < row.size();) {
    std::size_t end = c + 1;
    while (end < row.size() && row[end].shows == row[c].shows && !row[end].begins) ++end;
    const int shows = row[c].shows;
    std::string text;
    for (std::size_t i = c; i < end; ++i) {
      if (shows == kDone) text += "·";
      if (shows == kWaiting) text += "░";
      if (shows == kOverhead) text += "▓";
      if (shows == kUnknown) text += "?";
      if (shows < 0) continue;
      const bool edge = i == c && c > 0 && row[c].begins && end - c > 1;
      text += edge ? "│" : std::string(1, kNames[static_cast<std::size_t>(shows)]);
    }
    out += options.colour && shows >= 0
               ? painted(text, worker_colour(static_cast<std::uint32_t>(shows), workers),
                         options.indexed)
               : text;
    c = end;
  }
  return out;
}

// The legend, wrapped to the width.
std::string key(std::size_t columns, std::string_view attends, bool overhead, bool waits, bool done,
                bool unknown, std::string_view moves, bool posted) {
  std::vector<std::pair<std::string, std::size_t>> entries;  // with their widths
  const auto entry = [&](const std::string& sign, const std::string& meaning) {
    const std::size_t width = sign.size() > 3 ? sign.size() : 1;  // or one character of UTF-8
    entries.emplace_back(sign + " " + meaning, width + 1 + meaning.size());
  };
  entry("0, 1, ...", std::string(attends));
  if (overhead) entry("▓", "merge and other overhead");
  if (waits) entry("░", "worker waits");
  if (done) entry("·", "done");
  if (unknown) entry("?", "no times from its process");
  if (!moves.empty()) entry("▔", std::string(moves));
  if (posted) entry("┄", "transfer waits for the other end");
  std::string out;
  std::size_t used = 0;
  for (const auto& [text, width] : entries) {
    const bool breaks = used > 0 && used + 3 + width > columns;
    out += used == 0 ? "" : breaks ? "\n" : "   ";
    used = breaks || used == 0 ? width : used + 3 + width;
    out += text;
  }
  return out + "\n";
}

}  // namespace

std::string in_ascii(std::string_view text) {
  static constexpr std::pair<std::string_view, char> signs[] = {{"█", '#'}, {"▓", '+'}, {"░", '-'},
                                                                {"·", '.'}, {"│", '|'}, {"▔", '='},
                                                                {"┄", '~'}, {"━", '='}, {"─", '-'}};
  std::string out;
  while (!text.empty()) {
    const auto* const sign =
        std::ranges::find_if(signs, [&](const auto& s) { return text.starts_with(s.first); });
    out += sign == std::end(signs) ? text.front() : sign->second;
    text.remove_prefix(sign == std::end(signs) ? 1 : sign->first.size());
  }
  return out;
}

std::string terminal_gantt(const Timeline& t, const TerminalOptions& options) {
  const std::uint32_t workers = t.problem.workers;
  if (workers > kNames.size())
    fail("a chart of {} workers does not fit in a terminal (limit {})", workers, kNames.size());
  const std::size_t margin = 10;
  if (options.columns < margin + kLeastCells)
    fail("a chart of {} columns is too narrow; use at least {}", options.columns,
         margin + kLeastCells);
  refuse_empty(t);
  const SortedRun run(t);
  const Rows rows(run, options.columns - margin);
  std::string out;
  bool overhead = false, waits = false, done = false, unknown = false, posted = false;
  for (std::uint32_t w = 0; w < workers; ++w) {
    const std::vector<Cell> row = rows.compute(w);
    for (const Cell& c : row) {
      overhead = overhead || c.shows == kOverhead;
      waits = waits || c.shows == kWaiting;
      done = done || c.shows == kDone;
      unknown = unknown || c.shows == kUnknown;
    }
    out += fmt::format("worker {:<2} {}\n", w, text_of(row, workers, options));
    if (!run.moves || workers > 8) continue;
    std::string receiving = rows.receiving(w);
    posted = posted || receiving.find("┄") != receiving.npos;
    receiving.erase(receiving.find_last_not_of(' ') + 1);
    out += receiving.empty() ? "\n" : fmt::format("      in  {}\n", receiving);
  }
  const std::string end = duration(t.makespan(), t.unit);
  const std::size_t cells = options.columns - margin;
  const bool messages =
      std::ranges::any_of(t.tasks, [](const TimelineTask& x) { return is_receive(x.kind); });
  const bool several = std::ranges::any_of(t.spans, [&](const TaskSpan& s) {
    return is_attend(t.tasks[s.task.value].kind) && s.queries[0] != s.queries[1];
  });
  const std::string_view moves = !run.moves || workers > 8 ? ""
                                 : t.exchanges.empty()     ? "receive"
                                 : messages                ? "receive or exchange"
                                                           : "exchange";
  out += fmt::format("{:>{}}{:>{}}\n", "0", margin + 1, end, cells - 1);
  const std::string_view attends = t.problem.decodes() ? "the new tokens on that worker"
                                   : several           ? "that worker's heads"
                                                       : "that worker's queries";
  out += key(options.columns, attends, overhead, waits, done, unknown, moves, posted);
  return options.plain ? in_ascii(out) : out;
}

}  // namespace ringsched
