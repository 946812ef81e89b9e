// Plans eight workers, proves the plan, predicts its run on a DGX A100, and draws it.
#include <fmt/format.h>

#include <fstream>

#include <ringsched/scheduler/overlap.hpp>
#include <ringsched/scheduler/schedule.hpp>
#include <ringsched/scheduler/verify.hpp>
#include <ringsched/simulator/predicted_timeline.hpp>
#include <ringsched/simulator/simulate.hpp>
#include <ringsched/viz/gantt.hpp>

int main() {
  const ringsched::Problem problem;  // 8 workers, 64K tokens, causal, forward
  const auto plan = ringsched::limit_communication(
      ringsched::build_plan(problem, ringsched::find_schedule("balanced")), {});
  const bool proven = ringsched::verify(plan).holds();

  const ringsched::Machine machine = ringsched::find_machine("dgx-a100");
  const auto workload = ringsched::price(plan, machine);
  const auto run = ringsched::simulate(workload);
  fmt::print("{}, {} tasks, {:.1f} ms\n", proven ? "proven" : "wrong", plan.tasks.size(),
             static_cast<double>(run.makespan.value) / 1e9);

  const auto timeline = ringsched::predicted_timeline(workload, run, machine);
  std::ofstream("balanced.svg") << ringsched::svg(ringsched::gantt(timeline));
  return proven ? 0 : 1;
}
