// The commands that need the runtime. The package does not have it, so they say where to get it.
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/doctor.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

void leave_out(CLI::App& program, const char* name, const char* what) {
  CLI::App* app = program.add_subcommand(name, fmt::format("{} (not in the Python package)", what));
  app->prefix_command();  // takes any flags
  app->callback([name] {
    fail("{} is not in the Python package; it needs ringsched built from source (scripts/build)",
         name);
  });
}

}  // namespace

void add_run_command(CLI::App& program, ExitCode&) {
  leave_out(program, "run", "Run a plan on this machine");
}
void add_calibrate_command(CLI::App& program, ExitCode&) {
  leave_out(program, "calibrate", "Measure this machine");
}
void add_bench_links_command(CLI::App& program, ExitCode&) {
  leave_out(program, "bench-links", "Measure messages between workers");
}

std::vector<DoctorPart> runtime_parts() {
  return {{"runtime", "",
           "not in the Python package; run, calibrate and bench-links need ringsched built from "
           "source"}};
}

}  // namespace ringsched
