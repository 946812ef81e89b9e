#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "format_flag.hpp"
#include "machines_command.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct MachinesCommand {
  std::string name;
  Format format = Format::Text;
};

std::string libraries(const Machine& m) {
  std::string out;
  for (const std::string_view name : kernel_libraries(m))
    if (!name.empty()) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  return out;
}

void list(Format format) {
  std::vector<std::vector<std::string>> rows;
  std::string json;
  for (const MachineProfile& profile : machine_profiles()) {
    const Machine m = read_machine(profile.toml, profile.name);
    rows.push_back({m.name, m.ideal ? "any" : fmt::format("{}", m.devices()), m.summary});
    json += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"summary\": \"{}\", \"nodes\": {}, \"devices\": {}, "
        "\"workers_per_device\": {}, \"kernel_libraries\": \"{}\"}}",
        json.empty() ? "" : ",", escaped(m.name), escaped(m.summary), m.nodes,
        m.ideal ? "null" : fmt::format("{}", m.devices()), m.workers_per_device,
        escaped(libraries(m)));
  }
  if (format == Format::Json) {
    fmt::print("[{}\n]\n", json);
    return;
  }
  rows.insert(rows.begin(), {"machine", "devices", ""});
  std::vector<std::vector<std::string>> software = {{"--software", ""}};
  for (const MachineProfile& p : software_profiles())
    software.push_back({std::string(p.name), summary_of(p)});
  fmt::print(
      "{}\nTo see a profile and the sources of its figures: ringsched machines show NAME\n"
      "To write one from datasheets: ringsched machines new --gpu NAME -o FILE.toml\n"
      "To find its errors: ringsched machines check FILE.toml\n"
      "To use it: ringsched simulate --machine FILE.toml\n\n{}",
      table(rows), table(software));
}

void show(const std::string& name, Format format) {
  if (format == Format::Json)
    fail("--format json is only for the list; a single profile is printed as TOML");
  std::vector<std::string_view> known;
  for (const auto& profiles : {machine_profiles(), software_profiles()})
    for (const MachineProfile& p : profiles) {
      known.push_back(p.name);
      if (p.name == name) return fmt::print("{}", p.toml);
    }
  if (!is_machine_file(name)) throw Error(unknown_name("profile", name, known));
  find_machine(name);  // throws Error if it is not a profile of a machine
  fmt::print("{}", read_whole(name, 1u << 30));
}

}  // namespace

void add_machines_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand(
      "machines", "List, show, check or create profiles of machines and attention libraries");
  auto command = std::make_shared<MachinesCommand>();
  app->add_option("NAME", command->name,
                  "machine or distributed-attention library to show (default: list all)")
      ->type_name("");
  add_format_flag(*app, command->format);
  CLI::App* all = app->add_subcommand("list", "List all profiles (the default)");
  add_format_flag(*all, command->format);
  all->callback([command] { list(command->format); });
  CLI::App* one = app->add_subcommand("show", "Print a profile, as `machines NAME` does");
  one->add_option("NAME", command->name, "name of a built-in profile, or your own FILE.toml")
      ->type_name("")
      ->required();
  one->callback([command] { show(command->name, command->format); });
  add_check_command(*app, command->format, code);
  add_new_command(*app);
  // The callback keeps `command`: a flag of `check` sets its format.
  app->callback([app, command] {
    if (!app->get_subcommands().empty()) return;
    if (command->name.empty()) return list(command->format);
    show(command->name, command->format);
  });
}

}  // namespace ringsched
