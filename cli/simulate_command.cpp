#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "pictures.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/timeline.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/trace.hpp"
#include "stage.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct SimulateCommand {
  ProblemFlags problem;
  MachineFlags machine;
  std::string plan_file;
  std::string timeline, gantt, block_map, trace;
  std::vector<std::string> questions;
  std::string runs = "1";
  bool path = false, no_chart = false;
  Format format = Format::Text;
};

constexpr std::uint32_t kChartWorkers = 16;  // more do not fit a screen

// The names of files are checked before any work is done.
struct Outputs {
  explicit Outputs(const SimulateCommand& c) {
    if (!c.gantt.empty()) gantt = file_kind(c.gantt, "--gantt", kGanttKinds);
    if (!c.block_map.empty()) block_map = file_kind(c.block_map, "--block-map", kPictureKinds);
    if (!c.trace.empty()) file_kind(c.trace, "--trace", kTraceKinds);
    std::vector<std::string> others = {c.plan_file};
    for (const auto& [flag, file] : {std::pair{"--timeline", &c.timeline},
                                     {"--gantt", &c.gantt},
                                     {"--block-map", &c.block_map},
                                     {"--trace", &c.trace}}) {
      check_output(*file, flag, others);
      others.push_back(*file);
    }
  }
  FileKind gantt = FileKind::Svg, block_map = FileKind::Svg;
};

// Says what was written where, a line each.
std::string write_outputs(const SimulateCommand& c, const Outputs& kinds, const Plan& plan,
                          const Timeline& timeline) {
  std::string lines;
  const auto wrote = [&](const char* what, const std::string& file) {
    lines += fmt::format("{:<10} {}\n", what, file);
  };
  if (!c.timeline.empty()) {
    write_timeline_file(timeline, c.timeline);
    wrote("timeline", c.timeline);
  }
  if (!c.gantt.empty()) {
    if (kinds.gantt == FileKind::Html)
      write_text(html_page({&timeline, 1}), c.gantt);
    else
      write_picture(gantt(timeline), kinds.gantt, c.gantt, kPixels);
    wrote("gantt", c.gantt);
  }
  if (!c.block_map.empty()) {
    const Plan* const plans[] = {&plan};
    write_picture(block_map(plans), kinds.block_map, c.block_map, kPixels);
    wrote("block map", c.block_map);
  }
  if (!c.trace.empty()) {
    write_text(chrome_trace(timeline), c.trace);
    wrote("trace", c.trace);
  }
  return lines;
}

void run(const SimulateCommand& c) {
  const Outputs kinds(c);
  const Machine machine = c.machine.machine();
  const double diagonal = c.machine.diagonal();
  const std::int64_t runs = parse_count(c.runs, "--runs");
  if (runs < 1 || runs > 1'000'000) fail("--runs is {}, allowed are 1 to 1000000", c.runs);
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  const ProvedPlan proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
  const std::uint32_t workers = proved.plan.problem.workers;
  const Conditions conditions = c.machine.conditions(workers);
  if (runs > 1 && conditions.noise <= 0 && conditions.straggler_share <= 0)
    fail("--runs {} without noise would give equal runs; add --noise or --stragglers", c.runs);

  const Prediction p = predict(proved, {machine, conditions}, diagonal);
  std::vector<Answer> answers;
  for (const std::string& q : c.questions)
    answers.push_back({q, makespan_of(proved, changed(p.setup, q, workers), diagonal)});
  Spread spread;
  if (runs > 1) {
    const Stage stage(fmt::format("{} runs", runs), true);
    spread.makespans = makespans(p.workload, conditions, static_cast<std::uint32_t>(runs));
  }
  const bool chart = c.format == Format::Text && !c.no_chart && workers <= kChartWorkers &&
                     p.run.makespan.value > 0;
  std::string written, drawn;
  if (chart || !c.timeline.empty() || !c.gantt.empty() || !c.block_map.empty() ||
      !c.trace.empty()) {
    Timeline timeline = predicted_timeline(p.workload, p.run, machine, p.report.path_steps);
    timeline.conditions = described(conditions, c.machine.figures());
    written = write_outputs(c, kinds, proved.plan, timeline);
    if (chart) drawn = terminal_chart(timeline);
  }
  if (c.format == Format::Json) {
    fmt::print("{}", prediction_json(p, answers, improvements(p), spread, c.path));
    return;
  }
  fmt::print("{}", prediction_text(p, answers, improvements(p), spread, c.path));
  if (!drawn.empty()) fmt::print("\n{}", drawn);
  if (!written.empty()) fmt::print("\n{}", written);
}

}  // namespace

void add_simulate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("simulate", "Predict the time of a plan on a machine");
  auto command = std::make_shared<SimulateCommand>();
  app->add_option("PLAN", command->plan_file,
                  "a plan file, in place of the flags that describe one")
      ->type_name("");
  command->problem.add_to(*app);
  command->machine.add_machine_to(*app);
  command->machine.add_conditions_to(*app);
  app->add_option("--runs", command->runs, "so many runs with noise, seeds from --seed on (1)")
      ->type_name("N");
  app->add_option("--what-if", command->questions,
                  "ask again with bandwidth=2x, latency=0x, kernels=2x,\n"
                  "memory=2x, communication-sms=0, or worker:3=2x:\n"
                  "that worker takes twice as long; may be repeated")
      ->type_name("CHANGE");
  app->add_flag("--path", command->path, "list the tasks of the critical path");
  app->add_option("--timeline", command->timeline, "write all tasks with their times here")
      ->type_name("FILE");
  app->add_option("--gantt", command->gantt, "draw the run here: .svg, .pdf, .png or .html")
      ->type_name("FILE");
  app->add_option("--block-map", command->block_map,
                  "draw who computes which block here: .svg, .pdf\nor .png")
      ->type_name("FILE");
  app->add_option("--trace", command->trace, "write a trace for Perfetto here: .json")
      ->type_name("FILE");
  app->add_flag("--no-chart", command->no_chart, "no chart of the run below the table");
  add_format_flag(*app, command->format);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
