#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "format_flag.hpp"
#include "machines_command.hpp"
#include "prediction.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/simulator/gaps.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

CheckedProfile checked(const std::string& name) {
  if (is_machine_file(name)) return check_machine(read_whole(name, (1 << 20) - 1), name);
  find_machine(name);  // throws Error for an unknown name
  for (const MachineProfile& p : machine_profiles())
    if (p.name == name) return check_machine(p.toml, p.name);
  return {};
}

std::string check_json(const std::string& file, const CheckedProfile& c,
                       const std::vector<Gap>& guessed) {
  std::string errors, list;
  for (const std::string& e : c.errors)
    errors += fmt::format("{}\n    \"{}\"", errors.empty() ? "" : ",", escaped(e));
  for (const Gap& g : guessed)
    list += fmt::format("{}\n    {{\"about\": \"{}\", \"text\": \"{}\"}}", list.empty() ? "" : ",",
                        g.about, escaped(g.text));
  const auto in_list = [](const std::string& items) {
    return items.empty() ? std::string("[]") : "[" + items + "\n  ]";
  };
  return fmt::format(
      "{{\n  \"profile\": \"{}\",\n  \"good\": {},\n  \"errors\": {},\n  \"gaps\": {}\n}}\n",
      escaped(file), c.errors.empty(), in_list(errors), in_list(list));
}

ExitCode run(const std::string& name, Format format) {
  const CheckedProfile found = checked(name);
  const std::vector<Gap> guessed = found.machine ? gaps(*found.machine) : std::vector<Gap>{};
  const ExitCode code = found.errors.empty() ? 0 : 2;
  if (format == Format::Json) {
    fmt::print("{}", check_json(name, found, guessed));
    return code;
  }
  for (const std::string& e : found.errors) fmt::print("{}\n", e);
  if (!found.errors.empty()) {
    fmt::print("{}: {}\n", name, counted(static_cast<std::int64_t>(found.errors.size()), "error"));
    return code;
  }
  fmt::print("{}: no errors\n", name);
  if (!guessed.empty()) fmt::print("\nMissing from the profile, with what is used instead:\n");
  std::string before;
  for (const Gap& g : guessed) {
    fmt::print("{}", report_line(g.about == before ? "" : g.about, g.text));
    before = g.about;
  }
  return code;
}

}  // namespace

void add_check_command(CLI::App& machines, Format& format, ExitCode& code) {
  CLI::App* app = machines.add_subcommand(
      "check", "List all errors in a profile, and the values assumed for missing parameters");
  auto name = std::make_shared<std::string>();
  app->add_option("FILE", *name, "your own FILE.toml, or the name of a profile")
      ->type_name("")
      ->required();
  add_format_flag(*app, format);
  app->callback([name, &format, &code] { code = run(*name, format); });
}

}  // namespace ringsched
