// Plans eight workers the way a user of the library would, and checks that something came out.
#include <fmt/format.h>

#include <ringsched/scheduler/error.hpp>
#include <ringsched/scheduler/plan.hpp>
#include <ringsched/scheduler/schedule.hpp>

int main() {
  try {
    const ringsched::Problem problem;
    const auto plan = ringsched::build_plan(problem, ringsched::find_schedule("balanced"));
    fmt::print("{} plans {} workers in {} tasks\n", plan.schedule, plan.layout.workers(),
               plan.tasks.size());
    return plan.tasks.empty() ? 1 : 0;
  } catch (const ringsched::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
