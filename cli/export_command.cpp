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
#include "ringsched/simulator/export.hpp"

namespace ringsched {

namespace {

struct ExportCommand {
  ProblemFlags problem;
  MachineFlags machine;
  std::string plan_file, format = "goal", output = "-";
};

// All or none: one trace alone replays nothing.
void write_traces(const std::vector<std::string>& traces, const std::vector<std::string>& names) {
  std::size_t written = 0;
  try {
    for (; written < traces.size(); ++written) write_text(traces[written], names[written]);
  } catch (...) {
    while (written-- > 0) std::remove(names[written].c_str());
    throw;
  }
}

void write(const std::string& path, const std::string& bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
      throw std::runtime_error("cannot write to standard output");
    return;
  }
  write_text(bytes, path);
}

void run(const ExportCommand& c) {
  const Machine machine = c.machine.machine();
  const double diagonal = c.machine.diagonal();
  const std::string inputs[] = {c.plan_file, c.machine.file()};
  if (c.format == "chakra" && c.output == "-")
    fail("--format chakra makes one file for each worker: give their beginning with -o PREFIX");
  if (c.output != "-" && c.format != "chakra") check_output(c.output, "--output", inputs);
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  const ProvedPlan proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
  const Workload workload = price(proved.plan, machine, diagonal);
  if (c.format == "goal") {
    const Goal g = goal(workload);
    write(c.output, g.text);
    fmt::print(stderr, "replay with: LogGOPSim -L {} -o 0 -g 0 -O 0 -G 1 (times in ns)\n",
               g.latency_ns);
  } else if (c.format == "workload") {
    write(c.output, workload_text(workload));
  } else {
    std::vector<std::string> names;
    for (std::uint32_t w = 0; w < proved.plan.problem.workers; ++w) {
      names.push_back(fmt::format("{}.{}.et", c.output, w));
      check_output(names.back(), "--output", inputs);
    }
    const std::vector<std::string> traces = chakra(workload);
    write_traces(traces, names);
    fmt::print("{}.0.et to {}.{}.et\n", c.output, c.output, traces.size() - 1);
  }
}

}  // namespace

void add_export_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("export", "Hand a priced plan to another simulator");
  auto command = std::make_shared<ExportCommand>();
  app->add_option("PLAN", command->plan_file,
                  "a plan file, in place of the flags that describe one")
      ->type_name("");
  app->add_option(
         "--format", command->format,
         "goal (LogGOPSim, htsim, ATLAHS), chakra\n(ASTRA-sim; one file per worker) or workload\n"
         "(plain text, see docs/model.md) (goal)")
      ->check(CLI::IsMember({"goal", "chakra", "workload"}))
      ->type_name("FORMAT");
  app->add_option("-o,--output", command->output, "write here; - is standard output (-)")
      ->type_name("FILE");
  command->problem.add_to(*app);
  command->machine.add_machine_to(*app);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
