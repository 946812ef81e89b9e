#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cctype>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "format_flag.hpp"
#include "pictures.hpp"
#include "plan_summary.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "stage.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kTableWorkers = 16, kTableSteps = 64;  // more do not fit a screen

struct PlanCommand {
  ProblemFlags flags;
  std::string output;
  Format format = Format::Text;
};

void print_text(const ProvedPlan& proved, const PlanSummary& s, const PlanCommand& command) {
  const Plan& plan = proved.plan;
  fmt::print("{}\n\n", on_terminal_lines(headline(plan), 2));
  if (command.output.empty()) {
    if (plan.problem.workers <= kTableWorkers && s.steps <= kTableSteps) {
      fmt::print("{}\n", step_table(plan));
    } else {
      fmt::print("(the table of steps is only shown for up to {} workers and {} steps)\n\n",
                 kTableWorkers, kTableSteps);
    }
  }
  const auto line = [](const char* label, const std::string& text) {
    fmt::print("{}\n", on_terminal_lines(fmt::format("{:<9} {}", label, text), 10));
  };
  line("steps", fmt::format("{}", s.steps));
  line("tasks", tasks_line(s));
  line("moves", moves_line(plan, s));
  if (const std::string kept = kept_line(plan, s); !kept.empty())
    line("kept", kept + ", which the forward pass left");
  line("memory", "at most " + human(proved.peak) + " per worker");
  if (!proved.lowered.empty())
    line("exchanges", lowered_line(proved.lowered, proved.exchanges));
  else if (proved.exchanges != Lowering::Native)
    line("exchanges", "none");
  line("proof", "verified: structure, communication, coverage, no deadlock, memory");
  if (!command.output.empty()) line("file", command.output);
}

void print_json(const Plan& plan, const PlanSummary& s, Bytes peak) {
  fmt::print(
      "{{\n  \"schedule\": \"{}\",\n  \"workers\": {},\n  \"tokens\": {},\n  \"steps\": {},\n",
      escaped(plan.schedule), plan.problem.workers, plan.problem.tokens.value, s.steps);
  fmt::print("  \"pairs\": {},\n  \"tasks\": {{", s.pairs.value);
  for (std::size_t k = 0; k < kTaskKinds; ++k)
    fmt::print("{}\"{}\": {}", k == 0 ? "" : ", ", to_text(static_cast<TaskKind>(k)), s.tasks[k]);
  fmt::print("}},\n  \"messages\": {{");
  for (std::size_t k = 0; k < s.messages.size(); ++k)
    fmt::print("{}\"{}\": {}", k == 0 ? "" : ", ", plan.program.values[k].name, s.messages[k]);
  fmt::print("}},\n  \"exchanges\": [");
  for (const ExchangeSummary& x : s.exchanges)
    fmt::print(
        "{}\n    {{\"tensor\": \"{}\", \"form\": \"{}\", \"count\": {}, \"moved_bytes\": {}}}",
        &x == &s.exchanges[0] ? "" : ",", plan.name(x.value), to_text(x.form), x.count,
        x.moved.value);
  fmt::print("{}],\n  \"moved_bytes\": {{", s.exchanges.empty() ? "" : "\n  ");
  const std::vector<Bytes> moved = all_moved(s);
  for (std::size_t k = 0; k < moved.size(); ++k)
    fmt::print("{}\"{}\": {}", k == 0 ? "" : ", ", plan.program.values[k].name, moved[k].value);
  fmt::print("}},\n  \"kept_bytes\": {{");
  for (std::size_t k = 0; k < s.kept.size(); ++k)
    fmt::print("{}\"{}\": {}", k == 0 ? "" : ", ", plan.program.values[k].name, s.kept[k].value);
  fmt::print("}},\n  \"peak_bytes\": {},\n  \"plan_bytes\": {}\n}}\n", peak.value,
             s.plan_memory.value);
}

void write(const Plan& plan, const std::string& path) {
  const Stage stage(fmt::format("writing {}", path), plan.tasks.size() > kManyTasks);
  write_plan_file(plan, path);
}

void run(const PlanCommand& command) {
  std::string lower = command.output;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* ending : {".svg", ".pdf", ".png", ".dot", ".html"})
    if (lower.ends_with(ending))
      fail(
          "--output {}: 'ringsched plan' writes JSON files, e.g. plan.json; 'ringsched render' "
          "draws plans",
          command.output);
  if (command.output != "-") check_output(command.output, "--output", {});
  const ProvedPlan proved = proved_plan(command.flags);
  const Plan& plan = proved.plan;
  if (command.output == "-") {
    const std::string text = write_plan(plan);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
      throw std::runtime_error("cannot write to standard output");
    return;
  }
  if (!command.output.empty()) write(plan, command.output);
  const PlanSummary summary = summarise(plan);
  if (command.format == Format::Text) {
    print_text(proved, summary, command);
  } else {
    print_json(plan, summary, proved.peak);
  }
}

}  // namespace

void add_plan_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("plan", "Build and verify a plan; show it or save it");
  auto command = std::make_shared<PlanCommand>();
  command->flags.add_to(*app);
  app->add_option("-o,--output", command->output, "write a plan file; - = standard output")
      ->type_name("FILE");
  add_format_flag(*app, command->format);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
