#include "prediction.hpp"

#include <algorithm>
#include <stdexcept>

#include "machine_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/simulator/spread.hpp"
#include "stage.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

// About a second's work from here on.
constexpr std::size_t kManyTasks = 2'000'000;
// Simulating again some times over is still quick below this.
constexpr std::size_t kAskAgain = 200'000;

Bytes largest(const std::vector<Bytes>& peak) {
  return peak.empty() ? Bytes{} : *std::max_element(peak.begin(), peak.end());
}

Verification proof(const Plan& plan) {
  const Stage stage(
      fmt::format("verifying {}", counted(static_cast<std::int64_t>(plan.tasks.size()), "task")),
      plan.tasks.size() > kManyTasks);
  return verify(plan);
}

Simulation timed(const Workload& w, const Conditions& c) {
  const std::size_t tasks = w.plan->tasks.size();
  const Stage stage(fmt::format("simulating {}", counted(static_cast<std::int64_t>(tasks), "task")),
                    tasks > kManyTasks);
  return simulate(w, c);
}

}  // namespace

ProvedPlan proved_plan(const ProblemFlags& flags) {
  const Problem problem = flags.problem();
  ProvedPlan out;
  {
    const std::size_t blocks = std::size_t{problem.workers} * problem.workers;
    const Stage stage(fmt::format("planning {}", counted(problem.workers, "worker")),
                      blocks > kManyTasks / 2);
    out.plan = limit_communication(build_plan(problem, flags.schedule()), flags.limits());
  }
  const Verification v = proof(out.plan);
  if (!v.holds()) throw std::logic_error("the plan does not verify: " + v.violations.front().text);
  out.peak = largest(v.peak);
  return out;
}

ProvedPlan proved_plan(const std::string& file) {
  ProvedPlan out{read_plan_file(file), {}};
  const Verification v = proof(out.plan);
  if (!v.holds())
    fail("{} does not verify ({}): {}; see ringsched verify", file,
         to_text(v.violations.front().rule), v.violations.front().text);
  out.peak = largest(v.peak);
  return out;
}

Picoseconds makespan_of(const Plan& plan, const Setup& setup, double diagonal) {
  const Workload w = price(plan, setup.machine, diagonal);
  const std::uint32_t runs = runs_of(setup, plan.tasks.size());
  if (runs == 1) return simulate(w, setup.conditions).makespan;
  return percentile(makespans(w, setup.conditions, runs), 50);
}

Prediction predict(const ProvedPlan& proved, Setup setup, double diagonal,
                   const std::string& figures) {
  Workload workload = price(proved.plan, setup.machine, diagonal);
  std::vector<Picoseconds> all;
  Conditions conditions = setup.conditions;
  setup.runs = runs_of(setup, proved.plan.tasks.size());
  if (setup.runs > 1) {
    const Stage stage(fmt::format("{} runs", setup.runs),
                      setup.runs * proved.plan.tasks.size() > kManyTasks);
    all = makespans(workload, conditions, setup.runs);
    conditions = middle_of(all, conditions);
  }
  Simulation run = timed(workload, conditions);
  Report r = report(workload, run, conditions);
  const Picoseconds alone = one_device(workload, setup.machine);
  std::optional<Picoseconds> ring;
  if (proved.plan.schedule != "ring" && proved.plan.tasks.size() <= kManyTasks) {
    const Plan other = limit_communication(build_plan(proved.plan.problem, find_schedule("ring")),
                                           {Overlap::Prefetch, 0});
    const Stage stage("the same as ring does it", setup.runs * other.tasks.size() > kManyTasks);
    ring = makespan_of(other, setup, diagonal);
  }
  std::string with = described({{}, conditions, setup.runs}, figures);
  return {proved,
          std::move(setup),
          diagonal,
          std::move(workload),
          std::move(all),
          std::move(conditions),
          std::move(with),
          std::move(run),
          std::move(r),
          alone,
          ring};
}

std::vector<Answer> improvements(const Prediction& p) {
  std::vector<Answer> answers;
  if (p.setup.machine.ideal || p.proved.plan.tasks.size() > kAskAgain) return answers;
  std::vector<std::string> changes = {"kernels=2x", "bandwidth=2x", "latency=0x", "memory=2x"};
  if (p.setup.machine.comm_sms > 0) changes.push_back("communication-sms=0");
  for (const std::string& change : changes)
    answers.push_back(
        {change,
         makespan_of(p.proved.plan, changed(p.shown(), change, p.proved.plan.problem.workers),
                     p.diagonal)});
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Answer& a, const Answer& b) { return a.makespan < b.makespan; });
  return answers;
}

}  // namespace ringsched
