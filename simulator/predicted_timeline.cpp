#include "ringsched/simulator/predicted_timeline.hpp"

namespace ringsched {

Timeline predicted_timeline(const Workload& w, const Simulation& run, const Machine& machine) {
  Timeline out = timeline_of(*w.plan, TimelineSource::Predicted, machine.name);
  for (std::size_t i = 0; i < out.tasks.size(); ++i) {
    out.tasks[i].start_ps = run.start[i];
    out.tasks[i].end_ps = run.end[i];
  }
  return out;
}

}  // namespace ringsched
