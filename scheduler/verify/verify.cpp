#include "ringsched/scheduler/verify.hpp"

#include <algorithm>
#include <thread>

#include "jobs.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kWorthThreads = 100'000;  // tasks; fewer are verified before a thread is up

std::uint32_t threads_for(const Plan& plan, VerifyOptions options) {
  if (options.threads > 0) return options.threads;
  return plan.tasks.size() < kWorthThreads
             ? 1
             : std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
}

}  // namespace

Verification verify(const Plan& plan, VerifyOptions options) {
  Verification result;
  Findings findings(plan, std::max<std::size_t>(options.most, 1));
  const std::uint32_t threads = threads_for(plan, options);
  verify_structure(plan, threads, findings);
  // The later parts follow ids without checks, so they need a sound structure.
  if (findings.empty()) {
    const CheckJob jobs[] = {[&](Findings& found) { verify_coverage(plan, found); },
                             [&](Findings& found) { verify_deadlock(plan, found); },
                             [&](Findings& found) { verify_memory(plan, found, result); }};
    run_jobs(threads, jobs, findings);
    if (options.one_queue && findings.empty())
      result.stuck_in_one_queue = circle_in_one_queue(plan);
  }
  std::move(findings).hand_over(result);
  if (!result.holds()) result.peak.clear();
  return result;
}

std::string_view to_text(Rule rule) {
  static constexpr std::string_view names[] = {"structure", "communication", "coverage", "deadlock",
                                               "memory"};
  return names[static_cast<std::size_t>(rule)];
}

TaskColumn<std::uint32_t> groups_of(const Plan& plan) {
  const LaneNumbers lanes(plan);
  TaskColumn<std::uint32_t> group(plan.tasks.size());
  std::vector<TaskId> last(lanes.all);  // of the group that each lane is in; none: between groups
  for (auto id = static_cast<std::uint32_t>(plan.tasks.size()); id-- > 0;) {
    const Task& task = plan.tasks[id];
    TaskId& open = last[lanes.of(task)];
    if (!open.valid()) open = {id};
    group[id] = open.value;
    if (!task.with_previous) open = {};
  }
  return group;
}

std::vector<Tokens> rows_of_regions(const Plan& plan) {
  std::vector<std::int64_t> before{0};  // tokens in all chunks before
  for (const TokenRange& chunk : plan.layout.chunks) before.push_back(before.back() + chunk.count);
  std::vector<Tokens> rows;
  for (const Region& r : plan.regions) rows.push_back({before[r.end()] - before[r.first.value]});
  return rows;
}

}  // namespace ringsched
