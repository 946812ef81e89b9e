#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <memory>

#include "commands.hpp"
#include "comparison.hpp"
#include "content.hpp"
#include "format_flag.hpp"
#include "machine_flags.hpp"
#include "ringsched/scheduler/file.hpp"

namespace ringsched {

namespace {

struct CompareCommand {
  std::string files[2];
  std::string tolerance;
  Format format = Format::Text;
};

ExitCode run(const CompareCommand& command) {
  const double tolerance =
      command.tolerance.empty() ? -1 : parse_share(command.tolerance, "--tolerance", 1000);
  for (const std::string& file : command.files) expect_content(file, Content::Timeline);
  const Timeline t[2] = {read_timeline_file(command.files[0]),
                         read_timeline_file(command.files[1])};
  for (const int i : {0, 1}) require_complete(t[i], shown_path(command.files[i]));
  const Comparison c = compare(t[0], t[1]);
  if (command.format == Format::Text) {
    fmt::print("{}", comparison_text(t[0], t[1], c));
  } else {
    fmt::print("{}", comparison_json(c, t[0].unit));
  }
  if (tolerance < 0) return 0;
  const bool within = std::abs(c.error()) <= tolerance;
  if (command.format == Format::Text)
    fmt::print("\n{} the tolerance of {:g}%\n", within ? "within" : "OUTSIDE", 100 * tolerance);
  return within ? 0 : 1;
}

}  // namespace

void add_compare_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("compare", "Compare two timelines, predicted or measured");
  auto command = std::make_shared<CompareCommand>();
  app->add_option("FIRST", command->files[0], "timeline file, the reference")
      ->type_name("")
      ->required();
  app->add_option("SECOND", command->files[1], "timeline file to compare with FIRST")
      ->type_name("")
      ->required();
  app->add_option("--tolerance", command->tolerance,
                  "exit with code 1 if the makespans differ by more than this, e.g. 5%")
      ->type_name("PERCENT");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
