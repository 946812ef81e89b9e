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

struct Checked {
  std::vector<std::string> errors;
  std::vector<Gap> gaps;
};

Checked checked(std::string_view text, std::string_view name) {
  if (is_software(text, name)) {
    const CheckedLibrary c = check_software(text, name);
    return {c.errors, c.software ? gaps(*c.software) : std::vector<Gap>{}};
  }
  const CheckedProfile c = check_machine(text, name);
  return {c.errors, c.machine ? gaps(*c.machine) : std::vector<Gap>{}};
}

Checked checked(const std::string& name) {
  if (is_machine_file(name)) return checked(read_whole(name, (1 << 20) - 1), name);
  for (const auto& profiles : {machine_profiles(), software_profiles()})
    for (const MachineProfile& p : profiles)
      if (p.name == name) return checked(p.toml, p.name);
  find_machine(name);  // throws Error for an unknown name
  return {};
}

std::string check_json(const std::string& file, const Checked& c) {
  std::string errors, list;
  for (const std::string& e : c.errors)
    errors += fmt::format("{}\n    \"{}\"", errors.empty() ? "" : ",", escaped(e));
  for (const Gap& g : c.gaps)
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
  const Checked found = checked(name);
  const ExitCode code = found.errors.empty() ? 0 : 2;
  if (format == Format::Json) {
    fmt::print("{}", check_json(name, found));
    return code;
  }
  for (const std::string& e : found.errors) fmt::print("{}\n", e);
  if (!found.errors.empty()) {
    fmt::print("{}: {}\n", name, counted(static_cast<std::int64_t>(found.errors.size()), "error"));
    return code;
  }
  fmt::print("{}: no errors\n", name);
  if (!found.gaps.empty()) fmt::print("\nMissing from the profile, with what is used instead:\n");
  std::string before;
  for (const Gap& g : found.gaps) {
    fmt::print("{}", report_line(g.about == before ? "" : g.about, g.text));
    before = g.about;
  }
  return code;
}

}  // namespace

void add_check_command(CLI::App& machines, Format& format, ExitCode& code) {
  CLI::App* app = machines.add_subcommand(
      "check",
      "List all errors in a profile of a machine or library, and the values assumed for missing "
      "parameters");
  auto name = std::make_shared<std::string>();
  app->add_option("FILE", *name, "name of a built-in profile, or your own FILE.toml")
      ->type_name("")
      ->required();
  add_format_flag(*app, format);
  app->callback([name, &format, &code] { code = run(*name, format); });
}

}  // namespace ringsched
