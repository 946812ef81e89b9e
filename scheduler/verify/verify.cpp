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

void count_waste(const Plan& plan, Verification& result) {
  std::vector<bool> read(plan.tasks.size());
  for (const Task& task : plan.tasks) {
    if (is_receive(task.kind)) ++result.unread;
    if (is_attend(task.kind) && plan.works[task.work.value].pairs.value == 0) ++result.hidden;
    for (const TensorId input : task.inputs) {
      const TaskId maker = input.valid() ? plan.producer(input) : TaskId{};
      if (!maker.valid() || read[maker.value]) continue;
      read[maker.value] = true;
      if (is_receive(plan.tasks[maker.value].kind)) --result.unread;
    }
  }
}

}  // namespace

Verification verify(const Plan& plan, VerifyOptions options) {
  Verification result;
  Findings findings(plan, std::max<std::size_t>(options.most, 1));
  const std::uint32_t threads = threads_for(plan, options);
  verify_structure(plan, threads, findings);
  // The later parts follow ids without looking, so they need a sound structure.
  if (findings.empty()) {
    const CheckJob coverage = [&](Findings& found) {
      count_waste(plan, result);
      verify_coverage(plan, found);
    };
    const CheckJob deadlock = [&](Findings& found) { verify_deadlock(plan, found); };
    const CheckJob memory = [&](Findings& found) { verify_memory(plan, found, result.peak); };
    const CheckJob jobs[] = {coverage, deadlock, memory};
    run_jobs(threads, jobs, findings);
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

Lanes::Lanes(const Plan& plan) : numbers(plan), first(numbers.all + 1), tasks(plan.tasks.size()) {
  for (const Task& t : plan.tasks) ++first[numbers.of(t) + 1];
  for (std::size_t lane = 1; lane < first.size(); ++lane) first[lane] += first[lane - 1];
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    tasks[next[numbers.of(plan.tasks[id])]++] = {id};
}

RegionRows::RegionRows(const Plan& plan) {
  std::vector<std::int64_t> before{0};  // tokens in all chunks before
  for (const TokenRange& chunk : plan.layout.chunks) before.push_back(before.back() + chunk.count);
  for (const Region& r : plan.regions) rows_.push_back({before[r.end()] - before[r.first.value]});
}

}  // namespace ringsched
