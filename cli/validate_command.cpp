#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/simulator/validation.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct ValidateCommand {
  std::string format = "text", tolerance;
};

std::string figure(const ValidatedGroup& g, double x) {
  if (g.quantity == "overhead") return fmt::format("{:.0f} %", 100 * x);
  if (g.quantity == "speedup") return fmt::format("{:.2f}x", x);
  return fmt::format("{:.{}f}", x, x < 20 ? 2 : 1);
}

std::string unit(const ValidatedGroup& g) {
  if (g.quantity == "iterations_per_s") return "iterations/s";
  if (g.quantity == "tflops_per_device") return "TFLOP/s per device";
  if (g.quantity == "overhead") return "overhead of communication";
  if (g.quantity == "speedup") return "speed-up over one device";
  return g.quantity;
}

std::vector<std::vector<std::string>> rows_of(const ValidatedGroup& g) {
  std::vector<std::vector<std::string>> rows = {{"schedule", "published", "predicted", "difference",
                                                 "attending", "overhead", "moving", "slowed",
                                                 "waiting"}};
  for (const ValidatedResult& r : g.results) {
    const std::string name =
        r.overlap == "prefetch" ? r.schedule : fmt::format("{} ({})", r.schedule, r.overlap);
    rows.push_back({name, figure(g, r.published), figure(g, r.predicted),
                    r.impossible   ? "impossible"
                    : g.order_only ? "order only"
                                   : fmt::format("{:+.1f} %", 100 * r.error)});
    for (const double ms :
         {r.attending_ms, r.overhead_ms, r.communication_ms, r.contention_ms, r.waiting_ms})
      rows.back().push_back(fmt::format("{:.2f} ms", ms));
  }
  return rows;
}

std::string summary(const Validation& v) {
  std::string out = fmt::format("{} results: {:.1f} % off on average, {:.1f} % at worst",
                                v.results(), 100 * v.average_error(), 100 * v.worst_error());
  if (v.impossible() > 0)
    out += fmt::format(
        "; {} more are left out: their published times are shorter than their bytes take over "
        "their link",
        v.impossible());
  return out;
}

std::string ranking_of(const ValidatedGroup& g) {
  const Ranking r = g.ranking();
  if (r.pairs == 0) return "";
  return fmt::format("{} of {} pairs that differ by more than 3 % are in the published order",
                     r.in_order, r.pairs);
}

constexpr std::string_view kOrderOnly =
    "only the order is compared: the machine has no figures for such kernels, and those of the "
    "nearest head dimension stand in for them";

std::string text_of(const Validation& v) {
  std::string out;
  for (const ValidatedGroup& g : v.groups) {
    out += fmt::format("{} ({})\n  {}\n", g.name, unit(g), g.source);
    out += table(rows_of(g));
    if (g.order_only) out += fmt::format("{}\n", kOrderOnly);
    if (const std::string r = ranking_of(g); !r.empty()) out += fmt::format("ranking: {}\n", r);
    out += "\n";
  }
  out += summary(v) + "\n\nleft out\n";
  for (const Excluded& e : v.excluded) out += fmt::format("  {}: {}\n", e.what, e.reason);
  return out;
}

std::string markdown_of(const Validation& v) {
  std::string out =
      "# Predictions against published measurements\n\n"
      "Made by `ringsched validate --format markdown`; do not edit. The measurements stand in\n"
      "[validation/published.toml](../validation/published.toml), the machines in\n"
      "[machines/](../machines/). Machines are calibrated on kernel and link figures alone; none "
      "of\n"
      "the measurements below was used to set a constant. The columns after *difference* say "
      "where\n"
      "the predicted time goes, on the critical path ([metrics](metrics.md)).\n\n"
      "How predictions compare with runs of this program itself: [validation](validation.md).\n\n" +
      fmt::format("**{}.**\n", summary(v));
  for (const ValidatedGroup& g : v.groups) {
    out += fmt::format("\n## {}\n\n{}. Unit: {}.\n\n", g.name, g.source, unit(g));
    const auto rows = rows_of(g);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out += "|";
      for (const std::string& cell : rows[i]) out += fmt::format(" {} |", cell);
      out += "\n";
      if (i > 0) continue;
      out += "|";
      for (std::size_t c = 0; c < rows[i].size(); ++c) out += c == 0 ? "---|" : "---:|";
      out += "\n";
    }
    if (g.order_only) out += fmt::format("\nHere {}.\n", kOrderOnly);
    if (const std::string r = ranking_of(g); !r.empty()) out += fmt::format("\nRanking: {}.\n", r);
    if (!g.why.empty()) out += fmt::format("\nWhere it misses: {}.\n", g.why);
  }
  out += "\n## Left out\n\n";
  for (const Excluded& e : v.excluded) out += fmt::format("- {}: {}.\n", e.what, e.reason);
  return out;
}

std::string json_of(const Validation& v) {
  std::string groups;
  for (const ValidatedGroup& g : v.groups) {
    std::string results;
    for (const ValidatedResult& r : g.results)
      results += fmt::format(
          "{}\n      {{\"schedule\": \"{}\", \"overlap\": \"{}\", \"published\": {}, "
          "\"predicted\": {}, \"error\": {}, \"impossible\": {}}}",
          results.empty() ? "" : ",", escaped(r.schedule), escaped(r.overlap), r.published,
          r.predicted, r.error, r.impossible);
    groups += fmt::format(
        "{}\n    {{\"name\": \"{}\", \"source\": \"{}\", \"quantity\": \"{}\", "
        "\"order_only\": {}, \"pairs\": {}, \"pairs_in_order\": {}, \"results\": [{}\n    ]}}",
        groups.empty() ? "" : ",", escaped(g.name), escaped(g.source), g.quantity, g.order_only,
        g.ranking().pairs, g.ranking().in_order, results);
  }
  return fmt::format(
      "{{\n  \"results\": {},\n  \"average_error\": {},\n  \"worst_error\": {},\n  \"groups\": "
      "[{}\n  ]\n}}\n",
      v.results(), v.average_error(), v.worst_error(), groups);
}

ExitCode run(const ValidateCommand& c) {
  check_choice("--format", c.format, {"text", "json", "markdown"});
  const double tolerance = c.tolerance.empty() ? -1 : parse_share(c.tolerance, "--tolerance", 1000);
  const Validation v = validate();
  fmt::print("{}", c.format == "json"       ? json_of(v)
                   : c.format == "markdown" ? markdown_of(v)
                                            : text_of(v));
  return tolerance >= 0 && v.average_error() > tolerance ? 1 : 0;
}

}  // namespace

void add_validate_command(CLI::App& program, ExitCode& code) {
  CLI::App* app =
      program.add_subcommand("validate", "Compare predictions with published measurements");
  auto command = std::make_shared<ValidateCommand>();
  app->add_option("--format", command->format, "text, json or markdown (default text)")
      ->type_name("FORMAT");
  app->add_option("--tolerance", command->tolerance,
                  "exit with 1 if the average error is larger than this, e.g. 10%")
      ->type_name("SHARE");
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
