// The ringsched program. Exit codes: 0 good; 1 a check did not hold; 2 bad input or usage; 3 a run
// failed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "commands.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "text.hpp"

namespace {

constexpr int kBadInput = 2;
constexpr int kFailed = 3;

int complain(std::string what, int code) {
  std::replace(what.begin(), what.end(), '\n', ' ');
  what = ringsched::printable(what, 2000);
  std::fprintf(stderr, "ringsched: %s\n", what.c_str());  // unlike fmt, does not throw if it cannot
  return code;
}

void tidy_up_and_end(int number) {
  ringsched::remove_unfinished_files();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// A variable of a script that was not set, most likely; no flag has a use for it.
bool is_empty(const char* argument) {
  const std::string_view text = argument;
  return text.empty() || (text.starts_with("--") && text.ends_with('='));
}

constexpr std::pair<const char*, const char*> kExamples[] = {
    {"schedules", "schedules --format json"},
    {"plan", "plan --workers 4 --schedule zigzag"},
    {"verify", "verify plan.json"},
    {"machines", "machines dgx-a100"},
    {"simulate", "simulate --machine dgx-a100 --schedule zigzag --gantt zigzag.svg"},
    {"run", "run --workers 4 --schedule zigzag --check"},
    {"calibrate", "calibrate --output mine.toml"},
    {"bench-links", "bench-links --maxbytes 2M"},
    {"sweep", "sweep --machine dgx-a100,hgx-h100 --tokens 64K"},
    {"compare", "compare predicted.json measured.json --tolerance 10%"},
    {"render", "render timeline.json --output timeline.html"},
    {"export", "export --machine dgx-a100 --schedule ring --output ring.goal"},
    {"validate", "validate --format json"}};

std::string footer(const char* example) {
  return fmt::format(
      "Try:  ringsched {}\n"
      "Exit codes: 0 good, 1 a check did not hold, 2 bad input, 3 a run failed.",
      example);
}

// Help and versions are printed by CLI11, which does not look whether it could.
int all_printed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return complain("cannot write to standard output", kFailed);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ringsched;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};  // what was to be ignored (nohup) still is
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      std::signal(number, tidy_up_and_end);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like any other
  CLI::App program("Plans, predicts and proves distributed exact attention.", "ringsched");
  program.set_version_flag("--version", "ringsched " RINGSCHED_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(28);
  program.footer(footer("simulate --workers 8 --schedule balanced"));
  ExitCode code = 0;
  add_schedules_command(program, code);
  add_plan_command(program, code);
  add_verify_command(program, code);
  add_machines_command(program, code);
  add_simulate_command(program, code);
  add_run_command(program, code);
  add_calibrate_command(program, code);
  add_bench_links_command(program, code);
  add_sweep_command(program, code);
  add_compare_command(program, code);
  add_render_command(program, code);
  add_export_command(program, code);
  add_validate_command(program, code);
  for (const auto& [command, example] : kExamples)
    program.get_subcommand(command)->footer(footer(example));

  for (int i = 1; i < argc; ++i)
    if (is_empty(argv[i]))
      return complain(fmt::format("argument {} is empty{}", i,
                                  i > 1 ? fmt::format(" (after {})", argv[i - 1]) : ""),
                      kBadInput);
  try {
    program.parse(argc, argv);
    return all_printed(code);
  } catch (const CLI::Success& asked) {  // --help and --version
    return all_printed(program.exit(asked));
  } catch (const CLI::ParseError& wrong) {
    return complain(usage_error(program, wrong), kBadInput);
  } catch (const Error& wrong) {
    return complain(wrong.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailed);
  } catch (const std::runtime_error& failed) {  // such as output that cannot be written
    return complain(failed.what(), kFailed);
  } catch (const std::exception& broken) {
    return complain(fmt::format("internal error: {}", broken.what()), kFailed);
  }
}
