#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <memory>

#include "commands.hpp"
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

std::string headline(const char* which, const Timeline& t) {
  return fmt::format("{:<7} {} {} on {}{}{}, {} workers, {}\n", which, to_text(t.source),
                     printable(t.schedule), printable(t.machine),
                     t.conditions.empty() ? "" : " with ", printable(t.conditions, 200),
                     t.problem.workers, duration(t.makespan()));
}

std::string parts_table(const char* what, const std::vector<ComparedPart>& parts) {
  std::vector<std::vector<std::string>> rows = {{what, "first", "second", "ratio", "difference"}};
  for (const ComparedPart& p : parts) {
    if (p.time[0].value == 0 && p.time[1].value == 0) continue;
    rows.push_back({p.name, duration(p.time[0]), duration(p.time[1]), ratio(p.ratio()),
                    signed_duration(p.time[1] - p.time[0])});
  }
  return table(rows);
}

// What workers do while they do not compute, summed up like the kinds of task.
std::vector<ComparedPart> idle_parts(const Timeline (&t)[2]) {
  ComparedPart waiting{"waiting", {}, {}}, out{"out of work", {}, {}};
  for (const int i : {0, 1})
    for (const WorkerTimes& w : run_times(t[i]).workers) {
      waiting.time[i] = capped_sum(waiting.time[i], w.waiting);
      out.time[i] = capped_sum(out.time[i], w.out_of_work);
    }
  return {waiting, out};
}

void print_text(const Timeline (&t)[2], const Comparison& c) {
  fmt::print("{}{}{:<7} {:.3f} ({:+.1f} %)\n\n", headline("first", t[0]), headline("second", t[1]),
             "ratio", 1 + c.error(), 100 * c.error());
  std::vector<ComparedPart> parts = c.classes;
  for (const ComparedPart& p : idle_parts(t)) parts.push_back(p);
  fmt::print("{}\n{}", parts_table("time of all workers in", parts),
             parts_table("computing of worker", c.workers));
  if (!c.same_plan) {
    fmt::print("\n(two different plans: their tasks are not compared one by one)\n");
    return;
  }
  fmt::print("\n{}\n", c.worst.empty() ? "no task differs" : "tasks that differ most");
  for (const ComparedTask& w : c.worst) {
    const TimelineTask& x = t[0].tasks[w.task];
    const std::string what = is_transfer(x.kind) ? fmt::format("{} {} from {}", to_text(x.kind),
                                                               to_text(x.makes), x.other)
                                                 : std::string(to_text(x.kind));
    fmt::print("  task {:<6} worker {:<3} step {:<3} {:<24}  {} and {}\n", w.task, x.worker, x.step,
               what, duration(w.took[0]), duration(w.took[1]));
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

void print_json(const Comparison& c) {
  std::string worst;
  for (const ComparedTask& w : c.worst)
    worst += fmt::format("{}\n    {{\"task\": {}, \"first_us\": {}, \"second_us\": {}}}",
                         worst.empty() ? "" : ",", w.task, microseconds(w.took[0]),
                         microseconds(w.took[1]));
  fmt::print(
      "{{\n  \"first_us\": {},\n  \"second_us\": {},\n  \"error\": {},\n  \"same_plan\": {},\n"
      "  \"classes\": {},\n  \"workers\": {},\n  \"worst\": {}\n}}\n",
      microseconds(c.makespan[0]), microseconds(c.makespan[1]), json_ratio(c.error()), c.same_plan,
      json_parts(c.classes), json_parts(c.workers), worst.empty() ? "[]" : "[" + worst + "\n  ]");
}

ExitCode run(const CompareCommand& command) {
  const double tolerance =
      command.tolerance.empty() ? -1 : parse_share(command.tolerance, "--tolerance", 1000);
  const Timeline t[2] = {read_timeline_file(command.files[0]),
                         read_timeline_file(command.files[1])};
  for (const int i : {0, 1})
    if (!t[i].incomplete.empty())
      fail("{}: this run did not come to its end, so its times compare with nothing: {}",
           shown_path(command.files[i]), printable(t[i].incomplete, 200));
  const Comparison c = compare(t[0], t[1]);
  if (command.format == Format::Text) {
    print_text(t, c);
  } else {
    print_json(c);
  }
  if (tolerance < 0) return 0;
  const bool within = std::abs(c.error()) <= tolerance;
  if (command.format == Format::Text)
    fmt::print("\n{} the tolerance of {:g} %\n", within ? "within" : "OUTSIDE", 100 * tolerance);
  return within ? 0 : 1;
}

}  // namespace

void add_compare_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("compare", "Put two timelines side by side");
  auto command = std::make_shared<CompareCommand>();
  app->add_option("FIRST", command->files[0], "a timeline file; what the other is held against")
      ->type_name("")
      ->required();
  app->add_option("SECOND", command->files[1], "a timeline file")->type_name("")->required();
  app->add_option("--tolerance", command->tolerance,
                  "exit with 1 where the makespans are further\napart than this, e.g. 5%")
      ->type_name("SHARE");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
