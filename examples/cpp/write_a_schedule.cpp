// A schedule of one's own: workers fetch keys straight from their owners. Proves it, predicts it
// and draws it.
#include <fmt/format.h>

#include <fstream>

#include <ringsched/scheduler/overlap.hpp>
#include <ringsched/scheduler/schedule.hpp>
#include <ringsched/scheduler/verify.hpp>
#include <ringsched/simulator/predicted_timeline.hpp>
#include <ringsched/simulator/simulate.hpp>
#include <ringsched/viz/gantt.hpp>

using namespace ringsched;

// In step s, worker r attends the keys of worker r - s.
void fetch(const Problem& problem, PlanBuilder& plan) {
  const std::uint32_t workers = problem.workers;
  for (Step s = 0; s < workers; ++s) {
    plan.step(s);
    std::vector<Keys> keys;
    for (std::uint32_t r = 0; r < workers; ++r)
      keys.push_back(plan.move(plan.keys(WorkerId{(r + workers - s) % workers}), WorkerId{r}));
    for (std::uint32_t r = 0; r < workers; ++r)
      plan.merge(plan.attend(plan.queries(WorkerId{r}), keys[r]));
  }
}

int main() {
  const Problem problem;  // 8 workers, 64K tokens, causal, forward
  const Schedule mine{"fetch", "keys straight from their owners", "this file", contiguous, fetch};
  const Plan plan = limit_communication(build_plan(problem, mine), {});

  const Verification proof = verify(plan);
  for (const Violation& violation : proof.violations) fmt::print("{}\n", violation.text);
  if (!proof.holds()) return 1;

  const Machine machine = find_machine("dgx-a100");
  const auto workload = price(plan, machine);
  const auto run = simulate(workload);
  fmt::print("fetch holds and takes {:.1f} ms on {}\n",
             static_cast<double>(run.makespan.value) / 1e9, machine.name);

  std::ofstream("fetch.svg") << svg(gantt(predicted_timeline(workload, run, machine)));
  fmt::print("fetch.svg\n");
}
