#include "ringsched/simulator/predicted_timeline.hpp"

#include "engines.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

StartedBy started_by(Cause::Kind kind) {
  switch (kind) {
    case Cause::Data:
      return StartedBy::Data;
    case Cause::Lane:
      return StartedBy::Lane;
    case Cause::Control:
      return StartedBy::Buffers;
    case Cause::Kernel:
      return StartedBy::Kernel;
    case Cause::Host:
      return StartedBy::Host;
    case Cause::None:
    case Cause::Member:
      break;
  }
  return StartedBy::Nothing;
}

}  // namespace

Timeline predicted_timeline(const Workload& w, const Simulation& run, const Machine& machine,
                            const std::vector<PathStep>& critical_path) {
  Timeline out = timeline_of(*w.plan, TimelineSource::Predicted, machine.name);
  if (machine.ideal) out.unit = TimeUnit::Blocks;
  // A group starts together: what fixed the start of its first member fixed that of the others.
  const LaneNumbers lanes(*w.plan);
  std::vector<Cause> of_group(lanes.all);
  for (std::size_t i = 0; i < out.tasks.size(); ++i) {
    out.tasks[i].start_ps = run.start[i];
    out.tasks[i].end_ps = run.end[i];
    Cause& cause = of_group[lanes.of(w.plan->tasks[i])];
    if (!w.plan->tasks[i].with_previous) cause = run.cause[i];
    out.details[i].cause = started_by(cause.kind);
    if (cause.kind != Cause::Host && out.details[i].cause != StartedBy::Nothing)
      out.details[i].because = {cause.task};
  }
  for (const PathStep& step : critical_path)
    out.critical_path.push_back({step.task, step.start, step.end});
  return out;
}

Timeline predicted_timeline(const Study& s) {
  Timeline out = predicted_timeline(s.workload, s.run, s.setup.machine, s.report.path_steps);
  if (const auto sure = interval(s.possible, s.run.makespan))
    out.interval = {sure->low, sure->high};
  out.bound = s.report.bounds.best();
  return out;
}

}  // namespace ringsched
