#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "format_flag.hpp"
#include "launch_flags.hpp"
#include "machine_flags.hpp"
#include "measurement.hpp"
#include "outputs.hpp"
#include "problem_flags.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/session.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "stage.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct RunCommand {
  ProblemFlags problem;
  MachineFlags machine;
  JoinFlags join;
  BackendFlags backend;
  std::string plan_file, repeat = "3", take = "median", deadline = "600", inputs = "normal",
                         seed = "1";
  std::string check_rows;
  OutputFlags outputs;
  bool check = false, finite = false, no_chart = false;
  Format format = Format::Text;
};

// What all processes must agree on, most important first: the meaning of the flags, not their text.
Facts facts_of(const RunCommand& c, const RunOptions& o, const Plan& plan, const World& world) {
  const Problem& p = plan.problem;
  const bool nccl = c.backend.name == "cuda" && world.size() > 1;
  return {{"the version", RINGSCHED_VERSION},
          {"the version of NCCL", nccl ? nccl_version() : "none"},
          {"the transport", world.name()},
          {"the device", c.backend.name},
          {"the dtype", std::string(to_text(p.dtype))},
          {"the problem", described(p)},
          {"the workers", std::to_string(p.workers)},
          {"the schedule", plan.schedule},
          {"the plan's hash", plan_hash(plan)},
          {"--mpi-exchanges", c.join.exchanges.empty() ? "collectives" : c.join.exchanges},
          {"--inputs", c.inputs},
          {"--seed", std::to_string(o.seed)},
          {"--repeat", std::to_string(o.repeats)},
          {"--check", !o.check            ? "no"
                      : o.check_rows == 0 ? "yes"
                                          : fmt::format("{} rows", o.check_rows)},
          {"--check-finite", o.check_finite ? "yes" : "no"}};
}

RunOptions asked(const RunCommand& c) {
  RunOptions o;
  o.backend = c.backend;
  o.repeats = number_of(c.repeat, "--repeat", 1, 10'000);
  check_choice("--take", c.take, {"median", "fastest"});
  o.fastest = c.take == "fastest";
  o.deadline = std::chrono::seconds{number_of(c.deadline, "--deadline", 1, 1'000'000)};
  o.check = c.check;
  o.check_finite = c.finite;
  if (!c.check_rows.empty()) {
    if (!c.check) fail("--check-rows needs --check");
    o.check_rows = number_of(c.check_rows, "--check-rows", 1, 1'000'000'000);
  }
  o.inputs = parse_input_kind(c.inputs);
  o.seed = static_cast<std::uint64_t>(number_of(c.seed, "--seed", 0, INT64_MAX));
  o.timeline = c.outputs.timeline();
  c.join.require_valid(c.backend.name == "cuda");
  c.backend.require_valid(c.join.transport);
  return o;
}

// Checks the machine and the files, before looking for other processes.
OutputKinds check_files(const RunCommand& c) {
  const OutputKinds kinds = c.outputs.kinds({c.plan_file, c.machine.file()});
  if (!c.machine.given() && !c.machine.figures().empty())
    fail("{} needs --machine", c.machine.first_figure());
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  if (c.machine.given() && c.machine.machine().ideal)
    fail(
        "--machine ideal counts in blocks, which do not compare with a run; ringsched calibrate "
        "makes a profile of this machine");
  return kinds;
}

// On the first process only; the others refuse what it refuses.
std::unique_ptr<Prediction> prediction_of(const RunCommand& c, const ProvedPlan& proved,
                                          bool first) {
  if (!c.machine.given()) return nullptr;
  const auto ctas = static_cast<std::uint32_t>(number_of(c.join.ctas, "--nccl-ctas", 0, 64));
  const Machine machine = with_thread_blocks(c.machine.machine(), ctas);
  const double diagonal = c.machine.diagonal();
  std::string figures = c.machine.figures(machine);
  if (ctas > 0)
    figures += fmt::format("{}transfers use at most {} channels, an SM each",
                           figures.empty() ? "" : "; ", ctas);
  if (first)
    return std::make_unique<Prediction>(
        predict(proved, c.machine.setup(machine, proved.plan.problem.workers), diagonal, figures));
  price(proved.plan, machine, diagonal);
  return nullptr;
}

void show(const RunCommand& c, const OutputKinds& kinds, const Measurement& m) {
  const bool text = c.format == Format::Text;
  fmt::print("{}", text ? measurement_text(m) : measurement_json(m));
  if (text && !c.no_chart && m.proved.plan.problem.workers <= kChartWorkers)
    fmt::print("\n{}", terminal_chart(m.run.timeline));
  std::fflush(stdout);  // before a file that cannot be written ends it
  if (!c.outputs.any()) return;
  std::vector<Timeline> shown;
  if (m.prediction) {
    const Study& s = m.prediction->study;
    shown.push_back(predicted_timeline(s));
    shown.back().conditions =
        with_exchanges(described(s.conditions, c.machine.figures()), m.proved);
  }
  shown.push_back(m.run.timeline);
  shown.back().conditions = with_exchanges(shown.back().conditions, m.proved);
  const std::string written = c.outputs.write(kinds, m.proved.plan, shown);
  if (text) fmt::print("\n{}", written);
}

// One per process; in a single process one per core, so that no worker waits for a core, but enough
// to see messages and few enough for a chart.
std::uint32_t usual_workers(const RunCommand& c, const World& world) {
  if (world.size() > 1) return world.size();
  return c.backend.name == "cuda" ? 8 : std::clamp(usable_cores(), 2u, kChartWorkers);
}

ExitCode run(const RunCommand& c) {
  const RunOptions options = asked(c);
  const OutputKinds kinds = check_files(c);
  // These outlive the session, which still reads the plan when it fails.
  std::optional<ProvedPlan> proved;
  std::unique_ptr<Prediction> prediction;
  std::optional<Measurement> m;
  const auto body = [&](Session& session) {
    session.starts("making and proving the plan");
    proved = c.plan_file.empty()
                 ? proved_plan(c.problem.with_usual_workers(usual_workers(c, session.world())))
                 : proved_plan(c.plan_file);
    c.outputs.require_drawable(proved->plan);
    prediction = prediction_of(c, *proved, session.first());
    const Plan& plan = proved->plan;
    if (!session.agrees(facts_of(c, options, plan, session.world()), plan)) return 2;
    m.emplace(Measurement{*proved, session.measure(plan), prediction.get()});
    return m->run.holds() ? 0 : 1;
  };
  return in_session(c.join, options, stages(), body, [&] {
    if (m) show(c, kinds, *m);
  });
}

}  // namespace

void add_run_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("run", "Execute a plan on this machine and time it");
  auto command = std::make_shared<RunCommand>();
  command->problem.use_small_problem();
  app->add_option("PLAN", command->plan_file, "plan file, instead of the flags under Problem")
      ->type_name("");
  command->problem.add_to(*app);
  command->backend.add_to(*app);
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    app->add_option(name, value, help)->type_name(type)->group("Run");
  };
  flag("--repeat", command->repeat, "N", "number of runs (default 3)");
  flag("--take", command->take, "NAME",
       "which run to report: median, or fastest (better on busy machines) (default median)");
  flag("--inputs", command->inputs, "KIND",
       "values of the inputs: normal (normally distributed), large (scores around 10,000), equal "
       "(all scores of a "
       "row are the same) or nan (one NaN in a key, so --check fails) (default normal)");
  flag("--seed", command->seed, "N", "random seed for the inputs (default 1)");
  flag(
      "--deadline", command->deadline, "SECONDS",
      "time limit for start-up, for each run, and for each wait for other processes (default 600)");
  app->add_flag("--check", command->check, "check the results against a double-precision reference")
      ->group("Run");
  flag("--check-rows", command->check_rows, "N",
       "how many rows of each result to check, chosen at random (default: all rows if the problem "
       "is "
       "small, else 64)");
  app->add_flag("--check-finite", command->finite,
                "stop at the first task with a result that is not finite")
      ->group("Run");
  command->join.add_to(*app, true);
  command->join.add_exchanges_to(*app);
  command->machine.add_machine_to(*app, "");
  command->outputs.add_to(*app);
  app->add_flag("--no-chart", command->no_chart, "omit the chart below the table");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
