#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "pictures.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/simulator/export.hpp"

namespace ringsched {

namespace {

struct ExportCommand {
  ProblemFlags problem;
  MachineFlags machine;
  std::string plan_file, format = "goal", output = "-";
};

void write(const std::string& path, const std::string& bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
      throw std::runtime_error("cannot write to standard output");
    return;
  }
  write_text(bytes, path);
}

void run(const ExportCommand& c) {
  check_choice("--format", c.format, {"goal", "workload"});
  const Machine machine = c.machine.machine();
  const double diagonal = c.machine.diagonal();
  if (c.output != "-") {
    const std::string inputs[] = {c.plan_file, c.machine.file()};
    check_output(c.output, "--output", inputs);
  }
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  const ProvedPlan proved =
      c.plan_file.empty() ? proved_plan(c.problem.on(machine)) : proved_plan(c.plan_file);
  const Workload workload = price(proved.plan, machine, diagonal);
  if (c.format == "goal") {
    const Goal g = goal(workload);
    write(c.output, g.text);
    fmt::print(stderr, "replay with: LogGOPSim -L {} -o 0 -g 0 -O 0 -G 1 (times in ns)\n",
               g.latency_ns);
  } else {
    write(c.output, workload_text(workload));
  }
}

}  // namespace

void add_export_command(CLI::App& program, ExitCode&) {
  CLI::App* app =
      program.add_subcommand("export", "Export a plan and its task times for another simulator");
  auto command = std::make_shared<ExportCommand>();
  app->add_option("PLAN", command->plan_file, "plan file, instead of the flags under Problem")
      ->type_name("");
  app->add_option("--format", command->format,
                  "goal (for LogGOPSim, htsim or ATLAHS) or workload (ringsched's own plain-text "
                  "format, see "
                  "docs/model.md) (default "
                  "goal)")
      ->type_name("FORMAT");
  app->add_option("-o,--output", command->output, "file to write; - = standard output (default -)")
      ->type_name("FILE");
  command->problem.use_devices_of_machine();
  command->problem.add_to(*app);
  command->machine.add_machine_to(*app);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
