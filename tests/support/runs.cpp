#include "support/runs.hpp"

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {

Timeline predicted_run(const Plan& plan, const Machine& machine, const Conditions& conditions) {
  const Workload w = price(plan, machine);
  const Simulation run = simulate(w, conditions);
  return predicted_timeline(w, run, machine, report(w, run, conditions).path_steps);
}

std::vector<NamedRun> predicted_runs(std::uint32_t workers) {
  std::vector<NamedMachine> machines = test_machines(workers);
  machines.push_back({"ideal", find_machine("ideal")});
  std::vector<NamedRun> runs;
  for (const Schedule& s : schedules_for(workers))
    for (const NamedMachine& m : machines)
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
        Plan plan = limit_communication(
            build_plan(small_problem(workers, 41 * std::int64_t{workers}, pass), s), {});
        Timeline t = predicted_run(plan, m.machine);
        runs.push_back({std::string(s.name) + "_" + m.name + "_" + std::string(to_text(pass)),
                        std::move(plan), std::move(t)});
      }
  return runs;
}

}  // namespace ringsched
