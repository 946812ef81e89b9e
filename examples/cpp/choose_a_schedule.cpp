// Predicts some schedules for one model on one machine, and names the fastest.
#include <fmt/format.h>

#include <limits>
#include <string>

#include <ringsched/scheduler/overlap.hpp>
#include <ringsched/scheduler/schedule.hpp>
#include <ringsched/simulator/simulate.hpp>

int main() {
  ringsched::Problem problem;
  problem.workers = 8;
  problem.tokens = {128 * 1024};
  problem.heads = 32;
  problem.kv_heads = 8;
  problem.head_dim = 128;

  const ringsched::Machine machine = ringsched::find_machine("hgx-h100");
  std::string fastest;
  double least = std::numeric_limits<double>::infinity();
  for (const char* name : {"ring", "striped", "zigzag", "balanced-split", "usp:ulysses=4"}) {
    const auto plan = ringsched::limit_communication(
        ringsched::build_plan(problem, ringsched::find_schedule(name)), {});
    const auto run = ringsched::simulate(ringsched::price(plan, machine));
    const double ms = static_cast<double>(run.makespan.value) / 1e9;
    fmt::print("{:>14}  {:5.2f} ms\n", name, ms);
    if (ms < least) {
      least = ms;
      fastest = name;
    }
  }
  fmt::print("fastest: {}\n", fastest);
}
