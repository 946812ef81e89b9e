#include "prediction.hpp"

#include <fmt/format.h>

#include "machine_flags.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "stage.hpp"
#include "text.hpp"

namespace ringsched {

ProvedPlan proved_plan(const ProblemFlags& flags, bool announced) {
  const Problem problem = flags.problem();
  Plan plan;
  {
    const std::size_t blocks = std::size_t{problem.workers} * problem.workers;
    const Stage stage(fmt::format("planning {}", counted(problem.workers, "worker")),
                      announced && blocks > kManyTasks / 2);
    plan = limit_communication(build_plan(problem, flags.schedule()), flags.limits());
  }
  return prove(std::move(plan), {}, announced ? stages() : nullptr);
}

ProvedPlan proved_plan(const std::string& file) {
  return prove(read_plan_file(file), file, stages());
}

Prediction predict(const ProvedPlan& proved, Setup setup, double diagonal,
                   const std::string& figures) {
  StudyOptions options;
  options.diagonal = diagonal;
  options.against_ring = true;
  options.announce = stages();
  Study s = study(proved.plan, std::move(setup), std::move(options));
  std::string with = described({{}, s.conditions, s.setup.runs}, figures);
  return {proved, std::move(s), std::move(with)};
}

}  // namespace ringsched
