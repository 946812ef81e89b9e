#include "usage_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

// The command that was given (the innermost: `machines new`), or the program itself.
const CLI::App& used(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? program : used(*commands.back());
}

// "machines new"; of the program itself nothing.
std::string full_name(const CLI::App& program, const CLI::App& command) {
  if (&command == &program) return "";
  const std::string parent = full_name(program, *command.get_parent());
  return parent.empty() ? command.get_name() : parent + " " + command.get_name();
}

std::string see_help(const CLI::App& program) {
  const std::string command = full_name(program, used(program));
  return fmt::format(" (see ringsched {}--help)", command.empty() ? "" : command + " ");
}

const CLI::Option* flag_named(const CLI::App& command, std::string_view name) {
  return name.starts_with("-") ? command.get_option_no_throw(std::string(name)) : nullptr;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string_view> views(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// "sweep has it", "simulate, sweep and export have it"
std::string names(const std::vector<const CLI::App*>& commands) {
  std::string out;
  for (const CLI::App* one : commands)
    out += (out.empty() ? "" : one == commands.back() ? " and " : ", ") + one->get_name();
  return out + (commands.size() == 1 ? " has it" : " have it");
}

std::string unknown_flag(const CLI::App& program, const std::string& given) {
  const CLI::App& command = used(program);
  const std::string name = given.substr(0, given.find('='));
  const std::string shown = printable(name, 40);
  if (&command == &program && (name == "-V" || name == "-v"))
    return fmt::format("unknown flag {}; did you mean --version?", shown);
  if (&command == &program) {
    const std::string hint = did_you_mean(name, views(flags_of(program)));
    return fmt::format("unknown flag {}{}{}", shown,
                       hint.empty() ? "; flags come after the command" : hint, see_help(program));
  }
  const auto owners =
      program.get_subcommands([&](const CLI::App* c) { return flag_named(*c, name) != nullptr; });
  const std::vector<std::string> flags = flags_of(command);
  const std::string hint = did_you_mean(name, views(flags));
  return fmt::format("{} has no flag {}{}{}{}", full_name(program, command), shown, hint,
                     hint.empty() && !owners.empty() ? "; " + names(owners) : "",
                     see_help(program));
}

std::string unknown_command(const CLI::App& program, const std::string& given) {
  std::vector<std::string> known;
  for (const CLI::App* command : program.get_subcommands({})) known.push_back(command->get_name());
  return unknown_name("command", given, views(known));
}

// "4,8", from both places of the command line.
struct Stray {
  const CLI::Option* flag = nullptr;
  std::string given, list;
};

// The first flag of one value that is followed by more than one.
Stray find_stray(const CLI::App& command, const std::vector<std::string_view>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string_view name = arguments[i].substr(0, equals);
    const CLI::Option* flag = flag_named(command, name);
    if (!flag || flag->get_items_expected_max() != 1) continue;
    Stray stray{flag, std::string(name), ""};
    std::size_t values = 0;
    const auto add = [&](std::string_view value) {
      const bool apart = values++ > 0 && !stray.list.ends_with(',') && !value.starts_with(',');
      stray.list += (apart ? "," : "") + std::string(value);
    };
    if (equals != arguments[i].npos) add(arguments[i].substr(equals + 1));
    std::size_t next = i + 1;
    for (; next < arguments.size() && !arguments[next].starts_with("-"); ++next)
      add(arguments[next]);
    if (values > 1) return stray;
    i = next - 1;
  }
  return {};
}

bool is_list(const CLI::Option* flag) { return flag && flag->get_type_name() == "LIST"; }

std::string explained(const CLI::App& program, const Stray& stray) {
  const std::string flag = stray.given, list = printable(stray.list, 60);
  if (is_list(stray.flag))
    return fmt::format("{} takes one list; separate the values with commas: {} {}", flag, flag,
                       list);
  const CLI::App* sweep = program.get_subcommand("sweep");
  return fmt::format("{} takes one value, not {}{}", flag, list,
                     is_list(flag_named(*sweep, flag))
                         ? fmt::format("; ringsched sweep takes lists: {} {}", flag, list)
                         : "");
}

}  // namespace

std::string usage_error(const CLI::App& program, const CLI::ParseError& wrong,
                        const std::vector<std::string_view>& arguments) {
  const CLI::App& command = used(program);
  std::vector<std::string> extras = program.remaining();
  if (&command != &program) {
    if (!extras.empty() && arguments[0].starts_with("-"))
      return fmt::format("{} comes before the command; flags come after it{}",
                         printable(arguments[0], 40), see_help(program));
    extras = command.remaining();
  }
  if (!extras.empty()) {
    if (&command == &program && !extras[0].starts_with("-"))
      return unknown_command(program, extras[0]);
    for (const std::string& extra : extras)
      if (extra.starts_with("-") && extra.size() > 1) return unknown_flag(program, extra);
    const bool takes_some =
        !command.get_options([](const CLI::Option* o) { return o->get_positional(); }).empty();
    if (const Stray stray = find_stray(command, arguments); stray.flag)
      return explained(program, stray);
    return fmt::format("{} takes no {}arguments, but was given '{}'{}", full_name(program, command),
                       takes_some ? "further " : "", printable(extras[0], 60), see_help(program));
  }
  const std::string what = wrong.what();
  constexpr std::string_view convert = "Could not convert: ";  // CLI11's words, with FLAG = VALUE
  if (const std::size_t equals = what.find(" = "); what.starts_with(convert) && equals != what.npos)
    return fmt::format("{} is '{}'; use a number",
                       what.substr(convert.size(), equals - convert.size()),
                       printable(what.substr(equals + 3), 40));
  const std::string flag = what.substr(0, what.find(':'));
  if (const CLI::Option* option = flag_named(command, flag)) {
    if (option->count() > 1) return fmt::format("{} is given twice{}", flag, see_help(program));
    return fmt::format("{} needs a value: {}{}", flag, option->get_type_name(), see_help(program));
  }
  return what + see_help(program);
}

void refuse_stray_values(const CLI::App& program, const std::vector<std::string_view>& arguments) {
  if (arguments.empty()) return;
  const auto commands = program.get_subcommands(
      [&](const CLI::App* command) { return command->get_name() == arguments[0]; });
  if (commands.empty()) return;
  const Stray stray = find_stray(*commands[0], arguments);
  if (!stray.flag || stray.flag->get_group() == "Options") return;
  const std::string last = stray.list.substr(stray.list.rfind(',') + 1);
  // The last value may be the plan file.
  if (last.find_first_of("./") != last.npos || std::filesystem::exists(last)) return;
  fail("{}", explained(program, stray));
}

void refuse_list(std::string_view flag, std::string_view value) {
  const std::size_t comma = value.find(',');
  if (comma != value.npos && value.find('=', comma) != value.npos)
    fail("{} is {}; separate the parameters of a schedule with ':', not ','", flag,
         printable(value, 60));
  if (comma != value.npos)
    fail("{} takes one value, not {}; ringsched sweep takes lists", flag, printable(value, 60));
}

}  // namespace ringsched
