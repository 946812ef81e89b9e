#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <memory>

#include "commands.hpp"
#include "content.hpp"
#include "format_flag.hpp"
#include "machine_flags.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/timeline/compare.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CompareCommand {
  std::string files[2];
  std::string tolerance;
  Format format = Format::Text;
};

std::string ratio(double r) { return std::isfinite(r) ? fmt::format("{:.3f}", r) : "-"; }
std::string json_ratio(double r) { return std::isfinite(r) ? fmt::format("{}", r) : "null"; }

std::string outcome(double error) {
  if (std::abs(error) < 0.0005) return "equal makespans";
  return fmt::format("the second is {:.1f} % {}", 100 * std::abs(error),
                     error < 0 ? "shorter" : "longer");
}

std::string headline(const char* which, const Timeline& t) {
  return fmt::format("{:<7} {} {} on {}{}{}, {} workers, {}\n", which, to_text(t.source),
                     printable(t.schedule), printable(t.machine),
                     t.conditions.empty() ? "" : " with ", printable(t.conditions, 200),
                     t.problem.workers, duration(t.makespan(), t.unit));
}

std::string parts_table(const char* what, const std::vector<ComparedPart>& parts, TimeUnit unit) {
  std::vector<std::vector<std::string>> rows = {{what, "first", "second", "ratio", "difference"}};
  for (const ComparedPart& p : parts) {
    if (p.time[0].value == 0 && p.time[1].value == 0) continue;
    rows.push_back({p.name, duration(p.time[0], unit), duration(p.time[1], unit), ratio(p.ratio()),
                    signed_duration(p.time[1] - p.time[0], unit)});
  }
  return table(rows);
}

// The time in which workers do not compute, summed like the kinds of task.
std::vector<ComparedPart> idle_parts(const Timeline (&t)[2]) {
  ComparedPart waiting{"wait", {}, {}}, out{"done", {}, {}};
  for (const int i : {0, 1})
    for (const WorkerTimes& w : run_times(t[i]).workers) {
      waiting.time[i] = capped_sum(waiting.time[i], w.waiting);
      out.time[i] = capped_sum(out.time[i], w.out_of_work);
    }
  return {waiting, out};
}

void print_text(const Timeline (&t)[2], const Comparison& c) {
  fmt::print("{}{}{:<7} {:.3f}: {}\n\n", headline("first", t[0]), headline("second", t[1]), "ratio",
             1 + c.error(), outcome(c.error()));
  std::vector<ComparedPart> parts = c.classes;
  for (const ComparedPart& p : idle_parts(t)) parts.push_back(p);
  fmt::print("{}\n{}", parts_table("time of all workers", parts, t[0].unit),
             parts_table("compute time of worker", c.workers, t[0].unit));
  if (!c.same_plan) {
    fmt::print("\n(the plans differ, so their tasks are not compared one by one)\n");
    return;
  }
  fmt::print("\n{}\n", c.worst.empty() ? "no task differs" : "tasks that differ most");
  for (const ComparedTask& w : c.worst) {
    const TimelineTask& x = t[0].tasks[w.task];
    const TimelineExchange* const exchange = t[0].exchange(w.task);
    const std::string what =
        exchange ? fmt::format("{} {}", to_text(exchange->form), t[0].value(x).name)
        : is_transfer(x.kind)
            ? fmt::format("{} {} from {}", to_text(x.kind), t[0].value(x).name, x.other)
            : std::string(to_text(x.kind));
    fmt::print("  task {:<6} worker {:<3} step {:<3} {:<24}  {} and {}\n", w.task, x.worker, x.step,
               what, duration(w.took[0], t[0].unit), duration(w.took[1], t[0].unit));
  }
}

std::string json_parts(const std::vector<ComparedPart>& parts) {
  std::string out;
  for (const ComparedPart& p : parts)
    out += fmt::format(
        "{}\n    {{\"name\": \"{}\", \"first_tasks\": {}, \"second_tasks\": {}, \"first_us\": {}, "
        "\"second_us\": {}, \"ratio\": {}}}",
        out.empty() ? "" : ",", escaped(p.name), p.tasks[0], p.tasks[1], microseconds(p.time[0]),
        microseconds(p.time[1]), json_ratio(p.ratio()));
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

void print_json(const Comparison& c, TimeUnit unit) {
  std::string worst;
  for (const ComparedTask& w : c.worst)
    worst += fmt::format("{}\n    {{\"task\": {}, \"first_us\": {}, \"second_us\": {}}}",
                         worst.empty() ? "" : ",", w.task, microseconds(w.took[0]),
                         microseconds(w.took[1]));
  fmt::print(
      "{{\n  \"unit\": \"{}\",\n  \"first_us\": {},\n  \"second_us\": {},\n  \"error\": {},\n  "
      "\"same_plan\": {},\n"
      "  \"classes\": {},\n  \"workers\": {},\n  \"worst\": {}\n}}\n",
      unit == TimeUnit::Blocks ? "blocks" : "us", microseconds(c.makespan[0]),
      microseconds(c.makespan[1]), json_ratio(c.error()), c.same_plan, json_parts(c.classes),
      json_parts(c.workers), worst.empty() ? "[]" : "[" + worst + "\n  ]");
}

ExitCode run(const CompareCommand& command) {
  const double tolerance =
      command.tolerance.empty() ? -1 : parse_share(command.tolerance, "--tolerance", 1000);
  for (const std::string& file : command.files) expect_content(file, Content::Timeline);
  const Timeline t[2] = {read_timeline_file(command.files[0]),
                         read_timeline_file(command.files[1])};
  for (const int i : {0, 1})
    if (!t[i].incomplete.empty())
      fail("{}: this run is incomplete, so it cannot be compared: {}", shown_path(command.files[i]),
           printable(t[i].incomplete, 200));
  const Comparison c = compare(t[0], t[1]);
  if (command.format == Format::Text) {
    print_text(t, c);
  } else {
    print_json(c, t[0].unit);
  }
  if (tolerance < 0) return 0;
  const bool within = std::abs(c.error()) <= tolerance;
  if (command.format == Format::Text)
    fmt::print("\n{} the tolerance of {:g} %\n", within ? "within" : "OUTSIDE", 100 * tolerance);
  return within ? 0 : 1;
}

}  // namespace

void add_compare_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("compare", "Compare two timelines");
  auto command = std::make_shared<CompareCommand>();
  app->add_option("FIRST", command->files[0], "timeline file, the reference")
      ->type_name("")
      ->required();
  app->add_option("SECOND", command->files[1], "timeline file to compare with it")
      ->type_name("")
      ->required();
  app->add_option("--tolerance", command->tolerance,
                  "exit with 1 if the makespans differ by more than this, e.g. 5%")
      ->type_name("SHARE");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
