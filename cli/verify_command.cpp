#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "commands.hpp"
#include "content.hpp"
#include "format_flag.hpp"
#include "plan_summary.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "stage.hpp"
#include "text.hpp"
#include "verification_text.hpp"

namespace ringsched {

namespace {

struct VerifyCommand {
  std::string file, most = "20";
  Format format = Format::Text;
};

Verification prove(const Plan& plan, std::size_t most) {
  const Stage stage(
      fmt::format("verifying {}", counted(static_cast<std::int64_t>(plan.tasks.size()), "task")),
      plan.tasks.size() > 2'000'000);
  return verify(plan, {.most = most, .one_queue = true});
}

void print_json(const Plan& plan, const Verification& v) {
  fmt::print("{{\n  \"holds\": {},\n  \"violations\": [", v.holds());
  const char* separator = "\n";
  for (const Violation& x : v.violations) {
    fmt::print("{}    {{\"rule\": \"{}\", \"worker\": {}, \"step\": {}, \"tasks\": [", separator,
               to_text(x.rule), x.worker.valid() ? fmt::format("{}", x.worker.value) : "null",
               x.tasks.empty() ? "null" : fmt::format("{}", x.step));
    for (std::size_t i = 0; i < x.tasks.size(); ++i)
      fmt::print("{}{}", i == 0 ? "" : ", ", x.tasks[i].value);
    fmt::print("], \"text\": \"{}\"}}", escaped(x.text));
    separator = ",\n";
  }
  fmt::print(
      "{}],\n  \"more\": {},\n  \"unread_messages\": {},\n  \"hidden_attends\": {},\n  "
      "\"needs_independent_lanes\": {},\n  \"peak_bytes\": [",
      v.violations.empty() ? "" : "\n  ", v.more, v.unread, v.hidden,
      !v.holds()                     ? "null"
      : v.stuck_in_one_queue.empty() ? "false"
                                     : "true");
  for (std::size_t w = 0; w < v.peak.size(); ++w)
    fmt::print("{}{}", w == 0 ? "" : ", ", v.peak[w].value);
  const std::vector<Bytes> kept = v.holds() ? summarise(plan).kept : std::vector<Bytes>{};
  fmt::print("],\n  \"kept_bytes\": {{");
  for (std::size_t k = 0; k < kept.size(); ++k)
    fmt::print("{}\"{}\": {}", k == 0 ? "" : ", ", plan.program.values[k].name, kept[k].value);
  fmt::print("}}\n}}\n");
}

}  // namespace

void add_verify_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("verify", "Verify a plan file and report each violation");
  auto command = std::make_shared<VerifyCommand>();
  app->add_option("FILE", command->file, "plan file; - = standard input")
      ->required()
      ->type_name("");
  app->add_option("--max", command->most, "stop after listing this many violations (default 20)")
      ->type_name("N");
  add_format_flag(*app, command->format);
  app->callback([command, &code] {
    const std::int64_t most = number_of(command->most, "--max", 1, 1'000'000);
    expect_content(command->file, Content::Plan);
    const Plan plan = read_plan_file(command->file);
    const Verification v = prove(plan, static_cast<std::size_t>(most));
    if (command->format == Format::Text) {
      fmt::print("{}", verification_text(plan, v, most));
    } else {
      print_json(plan, v);
    }
    code = v.holds() ? 0 : 1;
  });
}

}  // namespace ringsched
