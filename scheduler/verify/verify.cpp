#include "ringsched/scheduler/verify.hpp"

#include <algorithm>

#include "internal.hpp"

namespace ringsched {

namespace {

std::uint64_t count_unread(const Plan& plan) {
  std::vector<bool> read(plan.tasks.size());
  for (const Task& task : plan.tasks)
    for (const TensorId input : task.inputs)
      if (const TaskId maker = input.valid() ? plan.producer(input) : TaskId{}; maker.valid())
        read[maker.value] = true;
  std::uint64_t unread = 0;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Receive && !read[id]) ++unread;
  return unread;
}

std::uint64_t count_hidden(const Plan& plan) {
  return static_cast<std::uint64_t>(
      std::count_if(plan.tasks.begin(), plan.tasks.end(), [&](const Task& task) {
        return is_attend(task.kind) && plan.works[task.work.value].pairs.value == 0;
      }));
}

}  // namespace

Verification verify(const Plan& plan, VerifyOptions options) {
  Verification result;
  Findings findings(plan, std::max<std::size_t>(options.most, 1));
  verify_structure(plan, findings);
  // The later parts follow ids without looking, so they need a sound structure.
  if (findings.empty()) {
    result.unread = count_unread(plan);
    result.hidden = count_hidden(plan);
    const Lanes lanes(plan);
    const ControlIndex controls(plan);
    verify_coverage(plan, findings);
    verify_deadlock(plan, lanes, controls, findings);
    verify_memory(plan, lanes, controls, findings, result.peak);
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

Lanes::Lanes(const Plan& plan)
    : first(std::size_t{plan.problem.workers} * kLanes + 1), tasks(plan.tasks.size()) {
  for (const Task& t : plan.tasks) ++first[of(t) + 1];
  for (std::size_t lane = 1; lane < first.size(); ++lane) first[lane] += first[lane - 1];
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) tasks[next[of(plan.tasks[id])]++] = {id};
}

RegionRows::RegionRows(const Plan& plan) {
  std::vector<std::int64_t> before{0};  // tokens in all chunks before
  for (const TokenRange& chunk : plan.layout.chunks) before.push_back(before.back() + chunk.count);
  for (const Region& r : plan.regions) rows_.push_back({before[r.end()] - before[r.first.value]});
}

ControlIndex::ControlIndex(const Plan& plan)
    : edges_(plan.controls), first_(edges_.empty() ? 0 : plan.tasks.size() + 1) {
  for (const ControlEdge& e : edges_) ++first_[e.after.value + 1];
  for (std::size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
}

}  // namespace ringsched
