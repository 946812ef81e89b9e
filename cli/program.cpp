#include "program.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "help.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "usage_error.hpp"

namespace ringsched {

namespace {

constexpr int kBadInput = 2;
constexpr int kFailed = 3;
constexpr int kEndedBySignal = 128;  // plus the signal, as shells say
constexpr const char* kCannotPrint = "cannot write to standard output";

int complain(std::string what, int code) {
  std::replace(what.begin(), what.end(), '\n', ' ');
  what = printable(what, 2000);
  std::fprintf(stderr, "ringsched: %s\n", what.c_str());  // unlike fmt, it never throws
  return code;
}

void tidy_up_and_end(int number) {
  remove_unfinished_files();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// Most likely an unset variable of a script; no flag has a use for an empty value.
bool is_empty(const char* argument) {
  const std::string_view text = argument;
  return text.empty() || (text.starts_with("--") && text.ends_with('='));
}

// The reader of the output has gone, as `head` does. SIGPIPE would have ended the program if its
// parent had not set it to be ignored.
bool is_pipe_closed() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int cannot_print() {
  return is_pipe_closed() ? kEndedBySignal + SIGPIPE : complain(kCannotPrint, kFailed);
}

// CLI11 prints help and versions without checking for errors.
int all_printed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return cannot_print();
}

}  // namespace

int run_program(int argc, char** argv) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};  // keep ignoring a signal that the parent set to be ignored (nohup)
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      std::signal(number, tidy_up_and_end);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like any other
  CLI::App program("Plan, predict, verify and run distributed exact attention.", "ringsched");
  program.set_version_flag("--version", "ringsched " RINGSCHED_VERSION,
                           "print the version and exit");
  program.require_subcommand(0, 1);
  format_help(program);
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
  add_import_command(program, code);
  add_render_command(program, code);
  add_plot_command(program, code);
  add_export_command(program, code);
  add_validate_command(program, code);
  add_doctor_command(program, code);
  add_footers(program);

  for (int i = 1; i < argc; ++i)
    if (is_empty(argv[i]))
      return complain(argv[i][0] != '\0'
                          ? fmt::format("{} needs a value",
                                        std::string(argv[i]).substr(0, std::strlen(argv[i]) - 1))
                          : fmt::format("argument {} is empty{}", i,
                                        i > 1 ? fmt::format(" (after {})", argv[i - 1]) : ""),
                      kBadInput);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {  // as `git help COMMAND`
    while (!words.empty() && words[0] == "help") words.erase(words.begin());
    const auto named = [&](const CLI::App* c) { return !words.empty() && c->check_name(words[0]); };
    // An unknown command is refused below.
    if (words.empty() || !program.get_subcommands(named).empty()) words.emplace_back("--help");
  }
  const std::vector<std::string_view> arguments(words.begin(), words.end());
  try {
    refuse_stray_values(program, arguments);
    program.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
    if (program.get_subcommands().empty()) std::fputs(program.help().c_str(), stdout);
    return all_printed(code);
  } catch (const CLI::Success& asked) {  // --help and --version
    return all_printed(program.exit(asked));
  } catch (const CLI::ParseError& wrong) {
    return complain(usage_error(program, wrong, arguments), kBadInput);
  } catch (const Error& wrong) {
    return complain(wrong.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailed);
  } catch (const std::runtime_error& failed) {  // such as output that cannot be written
    return std::ferror(stdout) != 0 ? cannot_print() : complain(failed.what(), kFailed);
  } catch (const std::exception& broken) {
    return complain(fmt::format("internal error: {}", broken.what()), kFailed);
  }
}

}  // namespace ringsched
