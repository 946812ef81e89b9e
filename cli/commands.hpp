// One function per subcommand: it adds the flags to the program and the callback that runs it.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

// The exit code of the chosen subcommand: 0 success; 1 a check failed. Bad input is an Error.
using ExitCode = int;

void add_schedules_command(CLI::App& program, ExitCode& code);
void add_plan_command(CLI::App& program, ExitCode& code);
void add_verify_command(CLI::App& program, ExitCode& code);
void add_machines_command(CLI::App& program, ExitCode& code);
void add_simulate_command(CLI::App& program, ExitCode& code);
void add_run_command(CLI::App& program, ExitCode& code);
void add_bench_links_command(CLI::App& program, ExitCode& code);
void add_calibrate_command(CLI::App& program, ExitCode& code);
void add_sweep_command(CLI::App& program, ExitCode& code);
void add_compare_command(CLI::App& program, ExitCode& code);
void add_import_command(CLI::App& program, ExitCode& code);
void add_plot_command(CLI::App& program, ExitCode& code);
void add_render_command(CLI::App& program, ExitCode& code);
void add_export_command(CLI::App& program, ExitCode& code);
void add_validate_command(CLI::App& program, ExitCode& code);
void add_doctor_command(CLI::App& program, ExitCode& code);

}  // namespace ringsched
