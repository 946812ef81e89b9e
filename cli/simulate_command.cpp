#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "format_flag.hpp"
#include "machine_flags.hpp"
#include "outputs.hpp"
#include "pictures.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/timeline/timeline.hpp"
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
  std::string measured, profile;
  bool path = false, no_chart = false;
  Format format = Format::Text;
};

// The fitted machine, named like its file.
void save_profile(const Fit& f, const std::string& measured, const std::string& file) {
  Machine m = f.machine;
  const std::string from = m.name;
  m.name = std::filesystem::path(file).stem().string();
  m.summary = fmt::format("{}, with the time of {} times {:.3g}", from, f.figure, f.factor);
  std::vector<std::string> head = {
      fmt::format("Profile {} with the time of {} times {:.6g}, from --calibrate-with {}.", from,
                  f.figure, f.factor, measured),
      "The sources below are of that profile, before this change."};
  if (!f.within_spread())
    head.push_back(
        fmt::format("The change is {:.2g} times the uncertainty of {:g}%: its cause is "
                    "probably another.",
                    f.sigmas(), 100 * f.spread));
  write_text(to_toml(m, head), file);
}

void run(const SimulateCommand& c) {
  const OutputKinds kinds = c.outputs.kinds({c.plan_file, c.machine.file()});
  const Machine machine = c.machine.machine();
  std::optional<Picoseconds> measured;
  if (!c.measured.empty()) measured = measured_time(c.measured);
  if (measured && machine.ideal)
    fail("--calibrate-with has no meaning on machine 'ideal', which has no figures; use --machine");
  if (!c.profile.empty()) {
    if (!measured) fail("--save-profile needs --calibrate-with: it writes the calibrated machine");
    if (!c.profile.ends_with(".toml"))
      fail("--save-profile {}: use a name that ends in .toml", c.profile);
    const std::vector<std::string> inputs = {c.plan_file, c.machine.file()};
    check_output(c.profile, "--save-profile", inputs);
  }
  const double diagonal = c.machine.diagonal();
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  const ProvedPlan proved =
      c.plan_file.empty() ? proved_plan(c.problem.on(machine)) : proved_plan(c.plan_file);
  c.outputs.require_drawable(proved.plan);
  const std::uint32_t workers = proved.plan.problem.workers;
  Setup setup = c.machine.setup(machine, workers);
  c.machine.check_runs(varies(setup.conditions));
  std::optional<Fit> fitted;
  if (measured) {
    fitted = fit(proved.plan, setup, *measured);
    setup.machine = fitted->machine;
  }
  Prediction p = predict(proved, setup, diagonal, c.machine.figures(machine));
  p.fit = std::move(fitted);
  if (!c.profile.empty()) save_profile(*p.fit, c.measured, c.profile);
  std::vector<Answer> answers;
  for (const std::string& q : c.questions) answers.push_back(ask(p.study, q));
  const bool chart = c.format == Format::Text && !c.no_chart && workers <= kChartWorkers &&
                     p.study.run.makespan.value > 0;
  std::string written, drawn;
  if (chart || c.outputs.any()) {
    Timeline timeline = predicted_timeline(p.study);
    timeline.conditions =
        with_exchanges(described(p.study.conditions, c.machine.figures()), proved);
    written = c.outputs.write(kinds, proved.plan, {&timeline, 1});
    if (chart) drawn = terminal_chart(timeline);
  }
  if (c.format == Format::Json) {
    fmt::print("{}", prediction_json(p, answers, improvements(p.study), c.path));
    return;
  }
  fmt::print("{}", prediction_text(p, answers, improvements(p.study), c.path));
  if (!c.machine.replaced().empty())
    fmt::print("\n{}\n", on_terminal_lines(c.machine.replaced(), 2));
  if (!drawn.empty()) fmt::print("\n{}", drawn);
  if (!written.empty()) fmt::print("\n{}", written);
  if (!c.profile.empty())
    fmt::print("\nprofile {}\nTo use it: ringsched simulate --machine {}\n", c.profile, c.profile);
}

}  // namespace

void add_simulate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("simulate", "Predict how long a plan takes on a machine");
  auto command = std::make_shared<SimulateCommand>();
  app->add_option("PLAN", command->plan_file, "plan file, instead of the flags under Problem")
      ->type_name("");
  command->problem.use_devices_of_machine();
  command->problem.add_to(*app);
  command->machine.add_machine_to(*app);
  command->machine.add_conditions_to(*app);
  app->add_option(
         "--what-if", command->questions,
         "simulate again with this change; repeatable, each change separately\n"
         "bandwidth=2x: all links twice as fast\n"
         "fabric=2x, network=2x: those inside nodes, those between nodes\n"
         "channels=2x: twice as many NCCL channels for each message\n"
         "latency=0x: no latency\n"
         "kernels=2x: attention kernels twice as fast\n"
         "memory=2x: twice the memory bandwidth, so merges and copies are twice as fast\n"
         "host=2x: the host issues work twice as fast; needs a [host] table in the profile or the "
         "--software file\n"
         "communication-sms=0: transfers occupy no SMs\n"
         "worker:3=2x: worker 3 takes twice as long (for workers, 2x means slower)")
      ->type_name("CHANGE")
      ->allow_extra_args(false)
      ->group("Output");
  app->add_option(
         "--calibrate-with", command->measured,
         "scale the uncertain machine parameter that explains this measured time best, until the "
         "prediction matches it, e.g. ms=12.3")
      ->type_name("TIME")
      ->group("Machine");
  app->add_option("--save-profile", command->profile,
                  "write the calibrated machine as a profile for --machine")
      ->type_name("FILE.toml")
      ->group("Machine");
  app->add_flag("--path", command->path, "list the tasks on the critical path")->group("Output");
  command->outputs.add_to(*app);
  command->outputs.add_path_to(*app);
  app->add_flag("--no-chart", command->no_chart, "omit the chart below the table");
  add_format_flag(*app, command->format);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
