#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format_flag.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

std::string layout_name(const Schedule& s) {
  Problem smallest;
  smallest.workers = 1;
  smallest.tokens = {2};
  return s.layout(smallest, s.arguments).name;
}

std::vector<Schedule> listed() {
  std::vector<Schedule> all(schedules().begin(), schedules().end());
  all.insert(all.end(), decode_schedules().begin(), decode_schedules().end());
  return all;
}

void print_list() {
  std::size_t width = 0;
  for (const Schedule& s : listed()) width = std::max(width, s.name.size());
  for (const Schedule& s : listed())
    fmt::print("{}\n{:<{}}  {}{}\n",
               on_terminal_lines(fmt::format("{:<{}}  {}", s.name, width, s.summary), width + 2),
               "", width, s.source, s.parameters.empty() ? "" : "; has parameters");
  fmt::print("\nparameters: ringsched schedules NAME\n");
}

// Layouts as the block map names them.
std::string layout_words(const std::string& name) {
  return name == "contiguous" ? "contiguous (consecutive tokens)"
         : name == "halves"   ? "halves (consecutive tokens, in halves)"
         : name == "striped"  ? "striped (every W-th token, for W workers)"
         : name == "zigzag"   ? "zigzag (one part from each end)"
         : name == "decode"   ? "decode (cached tokens spread over the workers)"
                              : name;
}

void print_one(const Schedule& s) {
  fmt::print("{}\n\n", on_terminal_lines(fmt::format("{}: {}", s.name, s.summary), 2));
  fmt::print("from    {}\nlayout  {}\n", s.source, layout_words(layout_name(s)));
  if (s.parameters.empty()) fmt::print("\nIt has no parameters.\n");
  for (const Parameter& p : s.parameters) {
    const std::string words = on_terminal_lines(fmt::format("  {}", p.words), 2);
    if (p.choices.empty())
      fmt::print("\n--schedule {}:{}=N\n{}\n  N: {} to {} (default {})\n", s.name, p.name, words,
                 p.least, p.most, p.initial);
    else
      fmt::print("\n--schedule {}:{}=WORD\n{}\n  WORD: {} (default {})\n", s.name, p.name, words,
                 fmt::join(p.choices, ", "), p.choices[p.initial]);
  }
}

void print_json(const Schedule& s) {
  fmt::print(
      "{{\"name\": \"{}\", \"summary\": \"{}\", \"source\": \"{}\", \"layout\": \"{}\", "
      "\"parameters\": [",
      s.name, escaped(s.summary), escaped(s.source), layout_name(s));
  const char* separator = "";
  for (const Parameter& p : s.parameters) {
    if (p.choices.empty())
      fmt::print(
          "{}{{\"name\": \"{}\", \"meaning\": \"{}\", \"least\": {}, \"most\": {}, "
          "\"default\": {}}}",
          separator, p.name, escaped(p.words), p.least, p.most, p.initial);
    else
      fmt::print(
          "{}{{\"name\": \"{}\", \"meaning\": \"{}\", \"choices\": [\"{}\"], "
          "\"default\": \"{}\"}}",
          separator, p.name, escaped(p.words), fmt::join(p.choices, "\", \""),
          p.choices[p.initial]);
    separator = ", ";
  }
  fmt::print("]}}");
}

void print_json() {
  const char* separator = "[\n  ";
  for (const Schedule& s : listed()) {
    fmt::print("{}", separator);
    print_json(s);
    separator = ",\n  ";
  }
  fmt::print("\n]\n");
}

}  // namespace

void add_schedules_command(CLI::App& program, ExitCode&) {
  CLI::App* command = program.add_subcommand("schedules", "List the schedules, or explain one");
  auto format = std::make_shared<Format>(Format::Text);
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "a schedule to explain")->type_name("");
  add_format_flag(*command, *format);
  command->callback([format, name] {
    const bool text = *format == Format::Text;
    if (name->empty()) return text ? print_list() : print_json();
    const Schedule schedule = find_schedule(std::string_view(*name).substr(0, name->find(':')));
    if (text) return print_one(schedule);
    print_json(schedule);
    fmt::print("\n");
  });
}

}  // namespace ringsched
