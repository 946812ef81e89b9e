#include "comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

std::string ratio(double r) { return std::isfinite(r) ? fmt::format("{:.3f}", r) : "-"; }
std::string json_ratio(double r) { return std::isfinite(r) ? fmt::format("{}", r) : "null"; }

std::string outcome(double error) {
  if (std::abs(error) < 0.0005) return "equal makespans";
  return fmt::format("the second is {:.1f}% {}", 100 * std::abs(error),
                     error < 0 ? "shorter" : "longer");
}

const std::string kAfterwards = "idle after the last task";

std::string kind_words(std::string_view kind) {
  constexpr std::string_view backward = "_backward";
  if (kind.ends_with(backward))
    return "backward " + kind_words(kind.substr(0, kind.size() - backward.size()));
  std::string out(kind);
  std::ranges::replace(out, '_', ' ');
  return out;
}

// Of a class: a kind of task, and what it moves.
std::string class_words(const std::string& name) {
  if (name == kAfterwards) return name;
  const std::size_t space = name.find(' ');
  if (space == name.npos) return kind_words(name);
  return kind_words(name.substr(0, space)) + " of " + value_words(name.substr(space + 1));
}

std::string headline(const char* which, const Timeline& t) {
  return fmt::format("{:<7} {} {} on {}{}{}, {} workers, {}\n", which, to_text(t.source),
                     printable(t.schedule, kMostOfName), printable(t.machine),
                     t.conditions.empty() ? "" : " with ", printable(t.conditions, 200),
                     t.problem.workers, duration(t.makespan(), t.unit));
}

std::string parts_table(const char* what, const std::vector<ComparedPart>& parts, TimeUnit unit) {
  std::vector<std::vector<std::string>> rows = {{what, "first", "second", "ratio", "difference"}};
  for (const ComparedPart& p : parts) {
    if (p.time[0].value == 0 && p.time[1].value == 0) continue;
    rows.push_back({class_words(p.name), duration(p.time[0], unit), duration(p.time[1], unit),
                    ratio(p.ratio()), signed_duration(p.time[1] - p.time[0], unit)});
  }
  return table(rows);
}

// The time in which workers do not compute, summed like the kinds of task.
std::vector<ComparedPart> idle_parts(const Timeline& first, const Timeline& second) {
  ComparedPart waiting{"wait", {}, {}}, out{kAfterwards, {}, {}};
  const Timeline* const both[] = {&first, &second};
  for (const int i : {0, 1})
    for (const WorkerTimes& w : run_times(*both[i]).workers) {
      waiting.time[i] = capped_sum(waiting.time[i], w.waiting);
      out.time[i] = capped_sum(out.time[i], w.out_of_work);
    }
  return {waiting, out};
}

std::string json_parts(const std::vector<ComparedPart>& parts) {
  std::string out;
  for (const ComparedPart& p : parts)
    out += fmt::format(
        "{}\n    {{\"name\": \"{}\", \"first_tasks\": {}, \"second_tasks\": {}, \"first_us\": {}, "
        "\"second_us\": {}, \"ratio\": {}}}",
        out.empty() ? "" : ",", escaped(p.name), p.tasks[0], p.tasks[1], microseconds(p.time[0]),
        microseconds(p.time[1]), json_ratio(p.ratio()));
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

}  // namespace

std::string comparison_text(const Timeline& first, const Timeline& second, const Comparison& c) {
  std::string out =
      fmt::format("{}{}{:<7} {:.3f}: {}\n\n", headline("first", first), headline("second", second),
                  "ratio", 1 + c.error(), outcome(c.error()));
  std::vector<ComparedPart> parts = c.classes;
  for (const ComparedPart& p : idle_parts(first, second)) parts.push_back(p);
  out += fmt::format("{}\n{}", parts_table("time, summed over workers", parts, first.unit),
                     parts_table("compute time of worker", c.workers, first.unit));
  if (!c.same_plan) {
    out += fmt::format("\n(the plans differ, so their tasks are not compared one by one)\n");
    return out;
  }
  out += fmt::format("\n{}\n", c.worst.empty() ? "no task differs" : "tasks that differ most");
  std::vector<std::vector<std::string>> rows = {
      {"task", "worker", "step", "what", "first", "second"}};
  for (const ComparedTask& w : c.worst) {
    const TimelineTask& x = first.tasks[w.task];
    const TimelineExchange* const exchange = first.exchange(w.task);
    const std::string what =
        exchange
            ? fmt::format("{} of {}", to_text(exchange->form), value_words(first.value(x).name))
        : is_transfer(x.kind)
            ? fmt::format("{} of {} {} {}", to_text(x.kind), value_words(first.value(x).name),
                          is_send(x.kind) ? "to" : "from", x.other)
            : kind_words(to_text(x.kind));
    rows.push_back({fmt::format("{}", w.task), fmt::format("{}", x.worker),
                    fmt::format("{}", x.step), what, duration(w.took[0], first.unit),
                    duration(w.took[1], first.unit)});
  }
  return c.worst.empty() ? out : out + table(rows);
}

std::string comparison_json(const Comparison& c, TimeUnit unit) {
  std::string worst;
  for (const ComparedTask& w : c.worst)
    worst += fmt::format("{}\n    {{\"task\": {}, \"first_us\": {}, \"second_us\": {}}}",
                         worst.empty() ? "" : ",", w.task, microseconds(w.took[0]),
                         microseconds(w.took[1]));
  return fmt::format(
      "{{\n  \"unit\": \"{}\",\n  \"first_us\": {},\n  \"second_us\": {},\n  \"error\": {},\n  "
      "\"same_plan\": {},\n"
      "  \"classes\": {},\n  \"workers\": {},\n  \"worst\": {}\n}}\n",
      unit == TimeUnit::Blocks ? "blocks" : "us", microseconds(c.makespan[0]),
      microseconds(c.makespan[1]), json_ratio(c.error()), c.same_plan, json_parts(c.classes),
      json_parts(c.workers), worst.empty() ? "[]" : "[" + worst + "\n  ]");
}

void require_complete(const Timeline& t, std::string_view name) {
  if (!t.incomplete.empty())
    fail("{}: this run is incomplete, so it cannot be compared: {}", name,
         printable(t.incomplete, 200));
}

}  // namespace ringsched
