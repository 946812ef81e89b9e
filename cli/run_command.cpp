#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "launch_flags.hpp"
#include "machine_flags.hpp"
#include "measurement.hpp"
#include "outputs.hpp"
#include "problem_flags.hpp"
#include "ringsched/runtime/session.hpp"
#include "ringsched/scheduler/error.hpp"
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
  std::string plan_file, repeat = "3", take = "middle", deadline = "600", inputs = "normal",
                         seed = "1";
  std::string check_rows;
  OutputFlags outputs;
  bool check = false, finite = false, no_chart = false;
  Format format = Format::Text;
};

std::int64_t count(const std::string& text, const char* flag, std::int64_t least,
                   std::int64_t most) {
  const std::int64_t n = parse_count(text, flag);
  if (n < least || n > most) fail("{} is {}, allowed are {} to {}", flag, text, least, most);
  return n;
}

// What all processes must have alike, the most telling first: what was meant, not how it was
// written.
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
  o.repeats = count(c.repeat, "--repeat", 1, 10'000);
  if (c.take != "middle" && c.take != "fastest")
    fail("--take is '{}', allowed are middle and fastest", c.take);
  o.fastest = c.take == "fastest";
  o.deadline = std::chrono::seconds{count(c.deadline, "--deadline", 1, 1'000'000)};
  o.check = c.check;
  o.check_finite = c.finite;
  if (!c.check_rows.empty()) {
    if (!c.check) fail("--check-rows says how many rows --check looks at; add --check");
    o.check_rows = count(c.check_rows, "--check-rows", 1, 1'000'000'000);
  }
  o.inputs = parse_input_kind(c.inputs);
  o.seed = static_cast<std::uint64_t>(count(c.seed, "--seed", 0, INT64_MAX));
  o.timeline = c.outputs.timeline();
  c.join.check(c.backend.name == "cuda");
  c.backend.check(c.join.transport);
  return o;
}

// What is asked of the machine and the files, before anybody is looked for.
OutputKinds check_files(const RunCommand& c) {
  const OutputKinds kinds = c.outputs.check({c.plan_file, c.machine.file()});
  if (!c.machine.given() && !c.machine.figures().empty())
    fail("{}: that describes a machine to predict for; add --machine", c.machine.figures());
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  if (c.machine.given() && c.machine.machine().ideal)
    fail(
        "--machine ideal counts blocks, and a run takes seconds; ringsched calibrate makes a "
        "profile "
        "of this machine");
  return kinds;
}

// On the first process only; the others refuse what it refuses.
std::unique_ptr<Prediction> prediction_of(const RunCommand& c, const ProvedPlan& proved,
                                          bool first) {
  if (!c.machine.given()) return nullptr;
  const Machine machine = c.machine.machine();
  const double diagonal = c.machine.diagonal();
  if (first)
    return std::make_unique<Prediction>(
        predict(proved, c.machine.setup(machine, proved.plan.problem.workers), diagonal,
                c.machine.figures(machine)));
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
    shown.push_back(predicted_timeline(s.workload, s.run, s.setup.machine, s.report.path_steps));
    shown.back().conditions = described(s.conditions, c.machine.figures());
  }
  shown.push_back(m.run.timeline);
  const std::string written = c.outputs.write(kinds, m.proved.plan, shown);
  if (text) fmt::print("\n{}", written);
}

ExitCode run(const RunCommand& c) {
  const RunOptions options = asked(c);
  const OutputKinds kinds = check_files(c);
  // These outlive the session, which still looks at the plan when it fails.
  std::optional<ProvedPlan> proved;
  std::unique_ptr<Prediction> prediction;
  std::optional<Measurement> m;
  const auto body = [&](Session& session) {
    session.starts("making and proving its plan");
    proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
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
  CLI::App* app = program.add_subcommand("run", "Execute a plan for real and measure it");
  auto command = std::make_shared<RunCommand>();
  command->problem.use_small_problem();
  app->add_option("PLAN", command->plan_file,
                  "a plan file, in place of the flags that describe one")
      ->type_name("");
  command->problem.add_to(*app);
  command->backend.add_to(*app);
  command->join.add_to(*app, true);
  app->add_flag("--check", command->check, "check the numbers against double precision");
  app->add_option("--check-rows", command->check_rows,
                  "so many rows of each result, at random (all of a\nsmall problem, else 64)")
      ->type_name("N");
  app->add_flag("--check-finite", command->finite, "stop at the first number that is not finite");
  app->add_option("--inputs", command->inputs, "normal, large, equal or nan (normal)")
      ->type_name("KIND");
  app->add_option("--seed", command->seed, "of the inputs (1)")->type_name("N");
  app->add_option("--repeat", command->repeat, "run so often, and take the middle one (3)")
      ->type_name("N");
  app->add_option(
         "--take", command->take,
         "of these runs: middle, or fastest, where the machine\nhas others to serve (middle)")
      ->type_name("NAME");
  app->add_option(
         "--deadline", command->deadline,
         "seconds that the start, each run and each wait for\nother processes may take (600)")
      ->type_name("SECONDS");
  command->machine.add_machine_to(*app, "");
  command->outputs.add_to(*app);
  app->add_flag("--no-chart", command->no_chart, "no chart of the run below the table");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
