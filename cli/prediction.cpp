#include "prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "machine_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "stage.hpp"
#include "text.hpp"

namespace ringsched {

ProvedPlan proved_plan(const ProblemFlags& flags, bool announced) {
  const Problem problem = flags.problem();
  Lowered lowered;
  {
    const std::size_t blocks = std::size_t{problem.workers} * problem.workers;
    const Stage stage(fmt::format("planning {}", counted(problem.workers, "worker")),
                      announced && blocks > kManyTasks / 2);
    const Schedule schedule = flags.schedule();
    lowered = lower_exchanges(build_plan(problem_for(schedule, problem, Naming::Flags), schedule),
                              flags.lowering());
    lowered.plan = limit_communication(std::move(lowered.plan), flags.limits());
  }
  ProvedPlan out = prove(std::move(lowered.plan), {}, announced ? stages() : nullptr);
  out.exchanges = flags.lowering();
  if (out.exchanges != Lowering::Native) out.lowered = std::move(lowered.forms);
  return out;
}

std::string with_exchanges(std::string conditions, const ProvedPlan& p) {
  if (p.exchanges == Lowering::Native) return conditions;
  return fmt::format("{}{}exchanges {}{}", conditions, conditions.empty() ? "" : "; ",
                     to_text(p.exchanges),
                     p.lowered.empty() ? " (no effect: the plan has no collectives)" : "");
}

namespace {

// PLAN is a file; people also write the name of a schedule there.
void refuse_schedule_name(const std::string& file) {
  const std::string_view name = std::string_view(file).substr(0, file.find(':'));
  for (const auto& all : {schedules(), decode_schedules()})
    if (std::ranges::any_of(all, [&](const Schedule& s) { return s.name == name; }) &&
        !std::filesystem::exists(file))
      fail("'{}' is not a file; for the schedule, use --schedule {}", printable(file, 60),
           printable(file, 60));
}

}  // namespace

ProvedPlan proved_plan(const std::string& file) {
  refuse_schedule_name(file);
  return prove(read_plan_file(file), file, stages());
}

namespace {

// If the machine has no kernel times for the requested head dimension, which one it uses instead.
std::string borrowed_kernels(const Machine& m, const Problem& p) {
  const KernelTable* nearest = nullptr;
  const auto distance = [&](const KernelTable& t) {
    return std::abs(std::log(t.head_dim / t.padded(p.head_dim)));
  };
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library && (nearest == nullptr || distance(t) < distance(*nearest)))
      nearest = &t;
  if (nearest == nullptr) return "";
  const double computed = nearest->padded(p.head_dim);
  std::vector<std::string> notes;
  if (computed != p.head_dim)
    notes.push_back(fmt::format("head dimension {} filled up to {}, as the library does",
                                p.head_dim, computed));
  if (nearest->head_dim != computed && m.flops_per_clock > 0)
    notes.push_back(fmt::format(
        "kernel times derived from those of head dimension {}: the profile has none for {}",
        nearest->head_dim, computed));
  else if (nearest->head_dim != computed)
    notes.push_back(
        fmt::format("kernel times of head dimension {}, the nearest to {} in the profile",
                    nearest->head_dim, computed));
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace

Picoseconds measured_time(const std::string& text) {
  constexpr std::pair<std::string_view, double> units[] = {{"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
  const std::string_view all = text;
  for (const auto& [unit, ps] : units) {
    std::string_view digits;
    if (all.starts_with(unit) && all.substr(unit.size()).starts_with('='))
      digits = all.substr(unit.size() + 1);
    else if (all.ends_with(unit))
      digits = all.substr(0, all.size() - unit.size());
    double value = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    if (error == std::errc() && end == last && value * ps >= 1 && value * ps <= 1e18)
      return {static_cast<std::int64_t>(value * ps)};
  }
  fail("--calibrate-with is '{}'; use a time above 0 in ms, us or s, e.g. ms=12.3 or 12.3ms",
       printable(text));
}

Prediction predict(const ProvedPlan& proved, Setup setup, double diagonal,
                   const std::string& figures) {
  StudyOptions options;
  options.diagonal = diagonal;
  options.against_ring = true;
  options.how_sure = true;
  options.announce = stages();
  Study s = study(proved.plan, std::move(setup), std::move(options));
  std::string with = with_exchanges(described(s.conditions, figures, s.setup.runs > 1), proved);
  const std::string borrowed = borrowed_kernels(s.setup.machine, proved.plan.problem);
  if (!borrowed.empty()) with += (with.empty() ? "" : "; ") + borrowed;
  return {proved, std::move(s), std::move(with), {}};
}

}  // namespace ringsched
