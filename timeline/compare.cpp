#include "ringsched/timeline/compare.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

std::string class_of(const Timeline& run, const TimelineTask& t) {
  return communicates(t.kind) ? fmt::format("{} {}", to_text(t.kind), run.value(t).name)
                              : std::string(to_text(t.kind));
}

Picoseconds took(const TimelineTask& t) { return {t.end_ps - t.start_ps}; }

bool are_one_task(const TimelineTask& a, const TimelineTask& b) {
  return a.kind == b.kind && a.makes == b.makes && a.lane == b.lane && a.worker == b.worker &&
         a.step == b.step;
}

void count(const Timeline& t, std::size_t side, std::map<std::string, ComparedPart>& classes,
           std::vector<ComparedPart>& workers) {
  for (const TimelineTask& x : t.tasks) {
    ComparedPart& c = classes[class_of(t, x)];
    ++c.tasks[side];
    c.time[side] = capped_sum(c.time[side], took(x));
    if (communicates(x.kind)) continue;
    ++workers[x.worker].tasks[side];
    Picoseconds& computing = workers[x.worker].time[side];
    computing = capped_sum(computing, took(x));
  }
}

}  // namespace

double ComparedPart::ratio() const {
  if (time[0].value == 0) return time[1].value == 0 ? 1 : std::numeric_limits<double>::infinity();
  return static_cast<double>(time[1].value) / static_cast<double>(time[0].value);
}

double Comparison::error() const {
  return ComparedPart{"", {}, {makespan[0], makespan[1]}}.ratio() - 1;
}

void refuse_different_problems(const Timeline& first, const Timeline& second) {
  if (first.unit != second.unit)
    fail(
        "one timeline is in blocks (machine ideal), the other in seconds; they cannot be compared");
  if (first.problem.workers != second.problem.workers ||
      first.problem.tokens != second.problem.tokens)
    fail(
        "the timelines are of different problems: the first has {} workers and {} tokens, the "
        "second {} workers and {} tokens",
        first.problem.workers, first.problem.tokens.value, second.problem.workers,
        second.problem.tokens.value);
}

Comparison compare(const Timeline& first, const Timeline& second, std::size_t worst) {
  refuse_different_problems(first, second);
  Comparison out;
  out.makespan[0] = first.makespan();
  out.makespan[1] = second.makespan();
  // A hash is only a claim, so compare the rows.
  out.same_plan = !first.plan_hash.empty() && first.plan_hash == second.plan_hash &&
                  std::equal(first.tasks.begin(), first.tasks.end(), second.tasks.begin(),
                             second.tasks.end(), are_one_task);
  for (std::uint32_t w = 0; w < first.problem.workers; ++w)
    out.workers.push_back({fmt::format("{}", w), {}, {}});
  std::map<std::string, ComparedPart> classes;
  count(first, 0, classes, out.workers);
  count(second, 1, classes, out.workers);
  for (auto& [name, part] : classes) {
    part.name = name;
    out.classes.push_back(part);
  }
  if (!out.same_plan) return out;

  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < first.tasks.size(); ++i)
    if (!is_send(first.tasks[i].kind)) order.push_back(i);
  const auto apart = [&](std::uint32_t i) {
    return std::abs((took(first.tasks[i]) - took(second.tasks[i])).value);
  };
  const auto shown = static_cast<std::ptrdiff_t>(std::min(worst, order.size()));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return apart(a) != apart(b) ? apart(a) > apart(b) : a < b;
                    });
  for (std::ptrdiff_t i = 0; i < shown; ++i) {
    const std::uint32_t id = order[static_cast<std::size_t>(i)];
    if (apart(id) > 0) out.worst.push_back({id, {took(first.tasks[id]), took(second.tasks[id])}});
  }
  return out;
}

}  // namespace ringsched
