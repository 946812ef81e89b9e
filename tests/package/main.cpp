// Plans, simulates and draws eight workers the way a user of the library would, and checks that
// something came out.
#include <fmt/format.h>

#include <ringsched/scheduler/error.hpp>
#include <ringsched/scheduler/plan.hpp>
#include <ringsched/scheduler/schedule.hpp>
#include <ringsched/simulator/predicted_timeline.hpp>
#include <ringsched/simulator/simulate.hpp>
#include <ringsched/viz/gantt.hpp>

int main() {
  try {
    const ringsched::Problem problem;
    const auto plan = ringsched::build_plan(problem, ringsched::find_schedule("balanced"));
    fmt::print("{} plans {} workers in {} tasks\n", plan.schedule, plan.layout.workers(),
               plan.tasks.size());
    const ringsched::Machine machine = ringsched::find_machine("dgx-a100");
    const auto workload = ringsched::price(plan, machine);
    const auto run = ringsched::simulate(workload);
    const auto picture = ringsched::gantt(ringsched::predicted_timeline(workload, run, machine));
    const bool drawn = ringsched::svg(picture).starts_with("<svg");
    return plan.tasks.empty() || run.makespan.value <= 0 || !drawn ? 1 : 0;
  } catch (const ringsched::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
