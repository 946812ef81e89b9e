// What the parts of a Gantt chart share: where time lies on the page, and what is known of a run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringsched/timeline/accounting.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/gantt.hpp"

namespace ringsched {

// Time runs from left to right, all of it between `left` and `right`.
struct TimeAxis {
  double left = 0, right = 0;
  std::int64_t end_ps = 1;   // of the axis: the later end of a run, or of what it may take
  std::int64_t runs_ps = 1;  // of the runs
  TimeUnit unit = TimeUnit::Seconds;
  double least_text = 0;  // smaller words are left out

  double x(std::int64_t ps) const {
    const std::int64_t inside = std::clamp<std::int64_t>(ps, 0, end_ps);
    return left + (right - left) * static_cast<double>(inside) / static_cast<double>(end_ps);
  }
};

// A run sorted for drawing.
struct SortedRun {
  explicit SortedRun(const Timeline&);

  const Timeline* timeline;
  RunTimes times;
  std::vector<std::int64_t> moving_from, moving_until;  // ps, by task
  std::vector<std::vector<std::uint32_t>> compute;      // by worker, by start; nothing of length 0
  // The same of receives and of sends; members of exchanges are both.
  std::vector<std::vector<std::uint32_t>> in, out;
  bool moves = false;        // some message takes time
  std::size_t messages = 0;  // sends, receives and members of exchanges that take time
};

// Where a row, or a strip of it, stands.
struct Strip {
  double y = 0;
  double compute = 0;  // height of the bars of the compute lane
  double lane = 0;     // height of each communication lane below; 0: not drawn
  double height() const { return compute + (lane > 0 ? 2 * (lane + 1) : 0); }
};

Colour cargo_colour(const Value&);
std::string_view cargo_name(const Value&);  // "result", "keys" or "query"
// "makespan 24.2 ms · idle 14.0% · ..."
std::string facts(const Timeline&, const RunTimes&);
// "INCOMPLETE, given up after 3.1 ms: worker 3 is gone"; empty for a run that ended.
std::string incomplete_mark(const Timeline&);
// Whether the run was given up before this worker had computed everything.
bool has_more(const Timeline&, std::uint32_t worker);
// Whether the run was given up and this worker's process left no times.
bool is_unknown(const Timeline&, std::uint32_t worker);
// How much longer the second run takes: "+12.5%" and "-3.0%", or "1.12x" and "0.97x" if any ratio
// beside it is 2 or more, so that a list has one form.
std::string change_of(double ratio, bool as_ratio);
inline bool reads_as_ratio(double ratio) { return ratio >= 2; }
void refuse_incomplete(const Timeline&);  // its times cannot be compared
// As `duration` has it, but with "µs".
std::string drawn_time(Picoseconds, TimeUnit);
// "; noise 5%", or empty.
std::string conditions_of(const Timeline&);
// "ring", or "plan" without a schedule.
std::string name_of(const Timeline&);
// "ring on dgx-a100", or "ring" without a machine.
std::string named(const Timeline&);
// Throws Error.
void refuse_empty(const Timeline&);
// "3", or "0-7".
std::string range_text(std::uint32_t first, std::uint32_t last);
// The name of a task, in a few words: "q3 k1" (in decoding "k1"), "q3b k1" (the second chunk of
// worker 3's queries), "q0-7 k0-7 h8-11", "merge q3", "all-to-all kv".
std::string short_name(const Timeline&, std::uint32_t task, bool with_parts = true);
// Everything about one task, in one line.
std::string about(const SortedRun&, std::uint32_t task);

// The interval of the makespan, as a whisker at this height; returns how much of the page it takes.
// `whose`: with two runs, the name of this one.
double draw_whisker(const Timeline&, std::string_view whose, const TimeAxis&, double y,
                    std::vector<Shape>& out);

inline constexpr double kPosted = 0.7;    // points of waiting for the other end that are drawn
inline constexpr double kStepSize = 7.5;  // of the numbers of steps in the corners of bars

// The size of the labels of attends, the same for all of one kind: of the forward or backward pass,
// of a worker's own keys or of others'. 0: some would not fit, so none has a label. If some would
// fit only without the parts of shares, none says them.
struct LabelSizes {
  LabelSizes(const SortedRun&, std::optional<std::uint32_t> only_worker, double height,
             const TimeAxis&);
  void share_with(LabelSizes& other);  // of a run that is drawn beside this one
  double of(const TimelineTask&) const;
  bool with_parts() const { return with_parts_; }  // "q3b k1", not "q3 k1"

 private:
  double sizes_[4];
  bool with_parts_ = true;
};

// The path goes by a message from one task's bar to another's, at the same worker where a group was
// waited for.
struct Hop {
  std::uint32_t leaves = 0, arrives = 0;  // tasks
  std::int64_t start_ps = 0, end_ps = 0;
};
struct DrawnPath {
  PathLook look = PathLook::None;
  std::vector<bool> on;  // by task; both ends of a message, all members of an exchange
  std::vector<Hop> hops;
  std::string jump;  // where no one could follow it: "from worker 3 to worker 4 without ..."

  bool has(std::uint32_t task) const { return look != PathLook::None && on[task]; }
  bool fades(std::uint32_t task) const { return look == PathLook::Fade && !on[task]; }
};
DrawnPath drawn_path(const SortedRun&);
// Whether no worker beside those on the path computes, or is in an exchange of the path, from the
// first moment to the last.
bool is_only_path(const SortedRun&);
Colour faded(Colour);

// One worker's bars.
void draw_worker(const SortedRun&, std::uint32_t worker, const Strip&, const TimeAxis&,
                 const LabelSizes&, bool numbered, const DrawnPath&, std::vector<Shape>& out);
// The middle of a message's bar, from the top.
double middle_of(const SortedRun&, std::uint32_t task, bool incoming, const Strip&);
// The shares of time of the workers [first, last), as areas.
void draw_band(const SortedRun&, std::uint32_t first, std::uint32_t last, const Strip&,
               const TimeAxis&, std::vector<Shape>& out);
// Whether a reader would call them alike. At no moment have they spent times on anything drawn that
// differ by more than 2% of the makespan.
struct WorkerRange {
  std::uint32_t first = 0, last = 0;  // the end is not in it
};
bool are_alike(const SortedRun&, WorkerRange, WorkerRange, const TimeAxis&);
// A pale band behind the rows of the members of each exchange, while it moves; `strips` are by
// worker.
void draw_exchanges(const SortedRun&, const DrawnPath&, const std::vector<Strip>& strips,
                    const TimeAxis&, std::vector<Shape>& out);
// Lines along the messages of the path; `strips` are by worker, `gap` apart.
void draw_hops(const SortedRun&, const DrawnPath&, const std::vector<Strip>& strips, double gap,
               const TimeAxis&, std::vector<Shape>& out);

void draw_time_axis(const TimeAxis&, double top, double bottom, std::vector<Shape>& out);

// The legend, with as many entries per line as fit. Returns the height.
struct LegendUse {
  bool helping = false, overhead = false, waiting = false, out_of_work = false;
  bool moves = false, waits = false, critical = false, bands = false;
  bool fades = false;  // what is not on the critical path
  bool labels = false, numbered = false;
  bool keys = false, queries = false, results = false;  // what moves
  bool messages = false, exchanges = false;             // how
  bool heads = false;                                   // labels of some heads
  bool own_queries = false, own_heads = false;          // of all queries there are
  bool gradients = false;                               // labels of the backward pass
  bool decodes = false;                                 // all queries are of new tokens
  bool apart = false;                                   // labels such as "q0-6/2"
  bool parts = false;                                   // labels such as "q1b"
  std::string unmarked;                                 // steps between marked ones: "4", "4, 9"
  Colour of_exchange = ink::keys, of_wait = ink::keys;  // what the first one carries
  std::uint32_t workers = 8;
};
double draw_legend(const LegendUse&, double left, double right, double y, std::vector<Shape>& out);

}  // namespace ringsched
