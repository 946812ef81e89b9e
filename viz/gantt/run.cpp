#include <fmt/format.h>

#include <algorithm>

#include "internal.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string interval(std::int64_t start, std::int64_t end, TimeUnit unit) {
  return fmt::format("{} to {} ({})", drawn_time({start}, unit), drawn_time({end}, unit),
                     drawn_time({end - start}, unit));
}

}  // namespace

SortedRun::SortedRun(const Timeline& t)
    : timeline(&t),
      times(run_times(t)),
      moving_from(ringsched::moving_from(t)),
      moving_until(ringsched::moving_until(t)),
      compute(t.problem.workers),
      in(t.problem.workers),
      out(t.problem.workers) {
  for (std::uint32_t i = 0; i < t.tasks.size(); ++i) {
    const TimelineTask& x = t.tasks[i];
    if (x.end_ps <= x.start_ps) continue;
    if (!communicates(x.kind)) compute[x.worker].push_back(i);
    if (is_receive(x.kind) || is_exchange(x.kind)) in[x.worker].push_back(i);
    if (is_send(x.kind) || is_exchange(x.kind)) out[x.worker].push_back(i);
    if (communicates(x.kind)) ++messages;
    if (communicates(x.kind) && moving_from[i] < moving_until[i]) moves = true;
  }
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    return t.tasks[a].start_ps < t.tasks[b].start_ps;
  };
  for (auto* of : {&compute, &in, &out})
    for (auto& tasks : *of) std::stable_sort(tasks.begin(), tasks.end(), earlier);
}

namespace {

// Sums, and what they are rounded to.
bool is_result(const Value& value) { return value.is_sum || value.name.starts_with("rounded_"); }

}  // namespace

std::string range_text(std::uint32_t first, std::uint32_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

Colour cargo_colour(const Value& value) {
  if (is_result(value)) return ink::results;
  return value.type == TypeId::KeysValues ? ink::keys : ink::queries;
}

std::string_view cargo_name(const Value& value) {
  if (is_result(value)) return "result";
  return value.type == TypeId::KeysValues ? "keys" : "query";
}

std::string incomplete_mark(const Timeline& t) {
  return t.incomplete.empty()
             ? ""
             : fmt::format("INCOMPLETE, given up after {}: {}", drawn_time(t.makespan(), t.unit),
                           printable(t.incomplete, 100));
}

std::string facts(const Timeline& t, const RunTimes& r) {
  if (!t.incomplete.empty()) return incomplete_mark(t);
  std::string text = fmt::format("makespan {} · idle {}", drawn_time(r.makespan, t.unit),
                                 percent(r.idle_fraction));
  const bool moves = std::any_of(r.workers.begin(), r.workers.end(),
                                 [](const WorkerTimes& w) { return w.transferring.value > 0; });
  if (moves)
    text += fmt::format(" · overlap {} · {} exposed per worker", percent(r.overlap_fraction),
                        drawn_time(r.exposed_communication, t.unit));
  return text;
}

bool has_more(const Timeline& t, std::uint32_t worker) {
  return std::any_of(t.unfinished.begin(), t.unfinished.end(), [&](TaskId id) {
    return t.tasks[id.value].worker == worker && t.tasks[id.value].lane == Lane::Compute;
  });
}

bool is_unknown(const Timeline& t, std::uint32_t worker) {
  return !t.incomplete.empty() &&
         std::none_of(t.tasks.begin(), t.tasks.end(),
                      [&](const TimelineTask& x) { return x.worker == worker && x.end_ps > 0; });
}

std::string drawn_time(Picoseconds t, TimeUnit unit) {
  std::string text = duration(t, unit);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
  return text;
}

std::string conditions_of(const Timeline& t) {
  return t.conditions.empty() ? "" : "; " + printable(t.conditions, 80);
}

std::string name_of(const Timeline& t) {
  return t.schedule.empty() ? "plan" : printable(t.schedule, kMostOfName);
}

std::string named(const Timeline& t) {
  const std::string name = name_of(t);
  return t.machine.empty() ? name : fmt::format("{} on {}", name, printable(t.machine));
}

void refuse_empty(const Timeline& t) {
  if (t.tasks.empty()) fail("the timeline of {} has no tasks: nothing to draw", named(t));
  if (t.makespan().value <= 0)
    fail("no task in the timeline of {} takes any time: nothing to draw", named(t));
}

std::string change_of(double ratio, bool as_ratio) {
  return as_ratio ? fmt::format("{:.{}f}x", ratio, ratio < 10 ? 2 : 1)
                  : fmt::format("{:+.1f}%", 100 * (ratio - 1));
}

void refuse_incomplete(const Timeline& t) {
  if (!t.incomplete.empty())
    fail("the run of {} is incomplete, so its times cannot be compared: {}", named(t),
         printable(t.incomplete, 200));
}

std::string short_name(const Timeline& run, std::uint32_t task, bool with_parts) {
  const TimelineTask& t = run.tasks[task];
  const std::string& letters = run.value(t).symbol;
  if (const TimelineExchange* e = run.exchange(task))
    return fmt::format("{} {}", to_text(e->form), letters);
  const TaskSpan* const span = run.span(task);
  const TaskPart* const part = with_parts ? run.part(task) : nullptr;
  const auto chunks = [](ChunksOfShare c) {
    return c.are_all() ? "" : chunks_label(c.first, c.last);
  };
  const std::string queries =
      (span ? homes_text(span->queries, span->every[0]) : fmt::format("{}", t.queries)) +
      (part ? chunks(part->queries) : "");
  const std::string heads = span && span->heads != run.value(t).all_columns()
                                ? " h" + range_text(span->heads.first, span->heads.end() - 1)
                                : "";
  if (is_attend(t.kind)) {
    const std::string keys =
        (span ? homes_text(span->other, span->every[1]) : fmt::format("{}", t.other)) +
        (part ? chunks(part->keys) : "");
    // In decoding all queries are of the new tokens, which belong to no worker.
    if (run.problem.decodes()) return fmt::format("k{}{}", keys, heads);
    return fmt::format("{}q{} k{}{}", is_backward(t.kind) ? "d" : "", queries, keys, heads);
  }
  std::string what = fmt::format("{} {}{}{}", to_text(t.kind), letters, queries, heads);
  if (!is_transfer(t.kind)) return what;
  return fmt::format("{} {} {}", what, is_send(t.kind) ? "to" : "from", t.other);
}

std::string about(const SortedRun& run, std::uint32_t task) {
  const TimelineTask& t = run.timeline->tasks[task];
  std::string text =
      fmt::format("{}, worker {}, step {}: {}", short_name(*run.timeline, task), t.worker, t.step,
                  interval(t.start_ps, t.end_ps, run.timeline->unit));
  const std::int64_t waited = run.moving_from[task] - t.start_ps;
  if (is_transfer(t.kind) && waited > 0)
    text += fmt::format(", waited {} for worker {} first", drawn_time({waited}, run.timeline->unit),
                        t.other);
  if (const TimelineExchange* e = run.timeline->exchange(task)) {
    text += fmt::format(", among {}", counted(e->members, "worker"));
    if (waited > 0)
      text +=
          fmt::format(", waited {} for the others first", drawn_time({waited}, run.timeline->unit));
  }
  return text;
}

}  // namespace ringsched
