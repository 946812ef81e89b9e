#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "outputs.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/timeline.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/simulator/spread.hpp"
#include "stage.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct SimulateCommand {
  ProblemFlags problem;
  MachineFlags machine;
  std::string plan_file;
  OutputFlags outputs;
  std::vector<std::string> questions;
  std::string runs = "1";
  bool path = false, no_chart = false;
  Format format = Format::Text;
};

void run(const SimulateCommand& c) {
  const OutputKinds kinds = c.outputs.check({c.plan_file, c.machine.file()});
  const Machine machine = c.machine.machine();
  const double diagonal = c.machine.diagonal();
  const std::int64_t runs = parse_count(c.runs, "--runs");
  if (runs < 1 || runs > 1'000'000) fail("--runs is {}, allowed are 1 to 1000000", c.runs);
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  const ProvedPlan proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
  const std::uint32_t workers = proved.plan.problem.workers;
  const Conditions conditions = c.machine.conditions(workers);
  if (runs > 1 && conditions.noise <= 0 && conditions.straggler_share <= 0)
    fail("--runs {} without noise would give equal runs; add --noise or --stragglers", c.runs);

  const Prediction p = predict(proved, {machine, conditions}, diagonal,
                               described(conditions, c.machine.figures(machine)));
  std::vector<Answer> answers;
  for (const std::string& q : c.questions)
    answers.push_back({q, makespan_of(proved, changed(p.setup, q, workers), diagonal)});
  Spread spread;
  if (runs > 1) {
    const Stage stage(fmt::format("{} runs", runs), true);
    spread.makespans = makespans(p.workload, conditions, static_cast<std::uint32_t>(runs));
  }
  const bool chart = c.format == Format::Text && !c.no_chart && workers <= kChartWorkers &&
                     p.run.makespan.value > 0;
  std::string written, drawn;
  if (chart || c.outputs.any()) {
    Timeline timeline = predicted_timeline(p.workload, p.run, machine, p.report.path_steps);
    timeline.conditions = described(conditions, c.machine.figures());
    written = c.outputs.write(kinds, proved.plan, {&timeline, 1});
    if (chart) drawn = terminal_chart(timeline);
  }
  if (c.format == Format::Json) {
    fmt::print("{}", prediction_json(p, answers, improvements(p), spread, c.path));
    return;
  }
  fmt::print("{}", prediction_text(p, answers, improvements(p), spread, c.path));
  if (!drawn.empty()) fmt::print("\n{}", drawn);
  if (!written.empty()) fmt::print("\n{}", written);
}

}  // namespace

void add_simulate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("simulate", "Predict the time of a plan on a machine");
  auto command = std::make_shared<SimulateCommand>();
  app->add_option("PLAN", command->plan_file,
                  "a plan file, in place of the flags that describe one")
      ->type_name("");
  command->problem.add_to(*app);
  command->machine.add_machine_to(*app);
  command->machine.add_conditions_to(*app);
  app->add_option("--runs", command->runs, "so many runs with noise, seeds from --seed on (1)")
      ->type_name("N");
  app->add_option("--what-if", command->questions,
                  "ask again with bandwidth=2x, latency=0x, kernels=2x,\n"
                  "memory=2x, communication-sms=0, or worker:3=2x:\n"
                  "that worker takes twice as long; may be repeated")
      ->type_name("CHANGE");
  app->add_flag("--path", command->path, "list the tasks of the critical path");
  command->outputs.add_to(*app);
  app->add_flag("--no-chart", command->no_chart, "no chart of the run below the table");
  add_format_flag(*app, command->format);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
