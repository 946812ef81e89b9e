#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format_flag.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

void print_text() {
  std::size_t width = 0;
  for (const Schedule& s : schedules()) width = std::max(width, s.name.size());
  for (const Schedule& s : schedules())
    fmt::print("{:<{}}  {}\n{:<{}}  {}\n", s.name, width, s.summary, "", width, s.source);
}

void print_json() {
  fmt::print("[");
  const char* separator = "\n";
  for (const Schedule& s : schedules()) {
    fmt::print("{}  {{\"name\": \"{}\", \"summary\": \"{}\", \"source\": \"{}\"}}", separator,
               s.name, escaped(s.summary), escaped(s.source));
    separator = ",\n";
  }
  fmt::print("\n]\n");
}

}  // namespace

void add_schedules_command(CLI::App& program, ExitCode&) {
  CLI::App* command = program.add_subcommand("schedules", "List the schedules");
  auto format = std::make_shared<Format>(Format::Text);
  add_format_flag(*command, *format);
  command->callback([format] { *format == Format::Text ? print_text() : print_json(); });
}

}  // namespace ringsched
