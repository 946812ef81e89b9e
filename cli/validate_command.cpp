#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <memory>

#include "commands.hpp"
#include "content.hpp"
#include "machine_flags.hpp"
#include "progress.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/simulator/validation.hpp"
#include "validation_text.hpp"

namespace ringsched {

namespace {

struct ValidateCommand {
  std::string format = "text", tolerance, file, only;
  bool rows = false, groups = false;
};

Measurements measurements_of(const std::string& file) {
  if (file.empty()) return published_measurements();
  constexpr std::uint64_t most = (1 << 20) - 1;
  const std::string text = read_whole(file, most);
  // The text of a machine profile may be part of a file of measurements.
  if (text.find("[[group]]") == text.npos)
    refuse_content(file, content_of(text), "a file of measurements");
  return read_measurements(text, file == "-" ? "standard input" : file);
}

// Keeps a group if its name, source, machine or a base of that contains `text`, in any case.
void keep_only(Measurements& measured, const std::string& text) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  const auto contains = [&](const std::string& in) {
    return std::search(in.begin(), in.end(), text.begin(), text.end(), same) != in.end();
  };
  std::erase_if(measured.groups, [&](const MeasuredGroup& g) {
    return !contains(g.name) && !contains(g.by) && !contains(g.machine.name) &&
           std::ranges::none_of(g.machine.bases, contains);
  });
  measured.excluded.clear();
  if (measured.groups.empty())
    fail(
        "--only '{}' matches no group, source or machine; 'ringsched validate --groups' lists the "
        "groups",
        printable(text, 40));
}

Validation validated(const Measurements& measured) {
  std::size_t results = 0;
  for (const MeasuredGroup& g : measured.groups) results += g.results.size();
  ProgressBar bar("predicting", results);
  return validate(measured, [&] { bar.advance(); });
}

ExitCode run(const ValidateCommand& c) {
  check_choice("--format", c.format, {"text", "json", "csv", "markdown"});
  const double tolerance = c.tolerance.empty() ? -1 : parse_share(c.tolerance, "--tolerance", 1000);
  Measurements measured = measurements_of(c.file);
  if (!c.only.empty()) keep_only(measured, c.only);
  const Validation v = validated(measured);
  fmt::print("{}", c.format == "json"  ? json_of(v)
                   : c.format == "csv" ? csv_of(v)
                   : c.format == "markdown"
                       ? markdown_of(v, c.file == "-" ? "standard input" : c.file)
                       : text_of(v, c.rows || !c.file.empty()     ? ValidationDetail::Rows
                                    : c.groups || !c.only.empty() ? ValidationDetail::Groups
                                                                  : ValidationDetail::Summary));
  if (tolerance < 0) return 0;
  const bool within = v.errors().mean <= tolerance;
  if (c.format == "text")
    fmt::print("\nmean error {} the tolerance of {:g}%\n", within ? "within" : "OUTSIDE",
               100 * tolerance);
  return within ? 0 : 1;
}

}  // namespace

void add_validate_command(CLI::App& program, ExitCode& code) {
  CLI::App* app =
      program.add_subcommand("validate", "Compare predictions with published measurements");
  auto command = std::make_shared<ValidateCommand>();
  app->add_option("--file", command->file,
                  "use your own measurements instead of the published ones (format: "
                  "docs/validation.md)")
      ->type_name("FILE");
  app->add_option("--only", command->only,
                  "only results with TEXT in the name of their group, source or machine, e.g. H800")
      ->type_name("TEXT");
  app->add_flag("--groups", command->groups,
                "print a line for each group, and what was left out (implied by --only)");
  app->add_flag("--rows", command->rows,
                "print every result, not only summaries (implied by --file)");
  app->add_option("--format", command->format, "text, json, csv or markdown (default text)")
      ->type_name("FORMAT");
  app->add_option("--tolerance", command->tolerance,
                  "exit with code 1 if the mean error is larger than this, e.g. 10%")
      ->type_name("PERCENT");
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
