#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <fstream>
#include <memory>

#include "commands.hpp"
#include "content.hpp"
#include "format_flag.hpp"
#include "page_flags.hpp"
#include "pictures.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/trace_import.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct ImportCommand {
  std::vector<std::string> files;
  std::string plan, output = "measured.json", gantt, call;
  PageFlags page;
  TraceNames names;
  Format format = Format::Text;
};

RankTrace read_trace(const std::string& path, const TraceNames& names) {
  std::string beginning(16, '\0');
  std::ifstream(path, std::ios::binary).read(beginning.data(), 16);
  if (beginning.starts_with("SQLite format 3")) return read_nsys_file(path, names);
  if (beginning.starts_with("\x1f\x8b")) fail("{} is compressed; use gunzip first", path);
  return read_kineto_file(path, names);
}

std::string summary(const ImportedRun& run, const Plan& plan) {
  const auto time = [](std::int64_t ps) { return duration({ps}); };
  std::string out = fmt::format("{}: {}, {}\n\n", printable(plan.schedule),
                                counted(plan.problem.workers, "worker"), described(plan.problem));
  out += fmt::format("call      {} of {}\n", run.call, run.calls);
  if (run.parts > 1)
    out +=
        fmt::format("messages  each message of the plan is {} messages in the traces\n", run.parts);
  out += fmt::format("clocks    {}\n", run.clocks_moved_ps == 0
                                           ? "as in the traces"
                                           : fmt::format("moved by up to {}, by the messages",
                                                         time(run.clocks_moved_ps)));
  if (run.clocks_left_ps > 0)
    out += fmt::format(
        "note      some messages end up to {} before they begin, so they may be "
        "matched wrongly; traces with record_shapes=True tell more\n",
        time(run.clocks_left_ps));
  for (const std::string& note : run.notes) out += fmt::format("note      {}\n", note);
  return out + fmt::format("makespan  {}\n\n", time(run.timeline.makespan().value));
}

std::string json_texts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts)
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", escaped(text));
  return "[" + out + "]";
}

// `written`: whether the run matches, so that there is a timeline.
std::string json_of(const ImportedRun& run, const Plan& plan, const std::string& written) {
  std::string out = fmt::format("{{\n  \"schedule\": \"{}\",\n  \"differences\": {}",
                                escaped(plan.schedule), json_texts(run.mismatches));
  if (!written.empty())
    out += fmt::format(
        ",\n  \"call\": {},\n  \"calls\": {},\n  \"messages_for_each\": {},\n  "
        "\"clocks_moved_us\": {},\n  \"clocks_left_us\": {},\n  \"notes\": {},\n  "
        "\"makespan_us\": {},\n  \"timeline\": \"{}\"",
        run.call, run.calls, run.parts, microseconds({run.clocks_moved_ps}),
        microseconds({run.clocks_left_ps}), json_texts(run.notes),
        microseconds(run.timeline.makespan()), escaped(written));
  return out + "\n}\n";
}

ExitCode run(const ImportCommand& c) {
  std::vector<std::string> others = c.files;
  others.push_back(c.plan);
  check_output(c.output, "--output", others);
  others.push_back(c.output);
  check_output(c.gantt, "--gantt", others);
  const FileKind kind =
      c.gantt.empty() ? FileKind::Svg : file_kind(c.gantt, "--gantt", kGanttKinds);
  const Page page = c.page.page();
  if (c.gantt.empty() || kind == FileKind::Html)
    c.page.refuse("is only for a picture: --gantt FILE (.svg, .pdf or .png)");
  ImportOptions options;
  options.annotated = !c.names.annotation.empty();
  if (!c.call.empty())
    options.repeat = static_cast<std::uint32_t>(number_of(c.call, "--call", 1, 1'000'000));
  expect_content(c.plan, Content::Plan);
  const Plan plan = read_plan_file(c.plan);
  std::vector<RankTrace> traces;
  for (const std::string& file : c.files) traces.push_back(read_trace(file, c.names));
  const ImportedRun imported = import_traces(plan, std::move(traces), options);
  const bool text = c.format == Format::Text;
  if (!imported.mismatches.empty() && !text) {
    fmt::print("{}", json_of(imported, plan, ""));
    return 1;
  }
  if (!imported.mismatches.empty()) {
    for (const std::string& what : imported.mismatches) fmt::print("{}\n", what);
    fmt::print("does not match: {}\n",
               counted(static_cast<std::int64_t>(imported.mismatches.size()), "difference"));
    return 1;
  }
  fmt::print("{}", text ? summary(imported, plan) : json_of(imported, plan, c.output));
  write_timeline_file(imported.timeline, c.output);
  if (text) fmt::print("timeline  {}\n", c.output);
  if (!c.gantt.empty()) {
    if (kind == FileKind::Html) {
      write_text(html_page(std::span(&imported.timeline, 1)), c.gantt);
    } else {
      write_picture(gantt(imported.timeline, {.page = page}), kind, c.gantt, page.pixels);
    }
    if (text) fmt::print("gantt     {}\n", c.gantt);
  }
  return 0;
}

}  // namespace

void add_import_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("import", "Turn profiler traces of a run into a timeline");
  auto command = std::make_shared<ImportCommand>();
  app->add_option("TRACE", command->files,
                  "traces from PyTorch's profiler (.json) or nsys (.sqlite), one for each rank")
      ->type_name("")
      ->required();
  app->add_option("--plan", command->plan, "plan file that the run followed")
      ->type_name("FILE")
      ->required();
  app->add_option("-o,--output", command->output, "timeline to write (default measured.json)")
      ->type_name("FILE");
  app->add_option("--gantt", command->gantt,
                  "draw a Gantt chart of the run: .svg, .pdf, .png or .html")
      ->type_name("FILE");
  app->add_option("--call", command->call,
                  "read the Nth attention call in the traces, counting from 1 (default: the last)")
      ->type_name("N");
  app->add_option("--annotation", command->names.annotation,
                  "treat each record_function range of this name as one call")
      ->type_name("NAME");
  app->add_option("--attend", command->names.attend,
                  "kernels with this text in their names count as attention (default: the usual "
                  "names in PyTorch, "
                  "FlashAttention and cuDNN)")
      ->type_name("TEXT");
  app->add_option("--attend-backward", command->names.attend_backward, "same for the backward pass")
      ->type_name("TEXT");
  add_format_flag(*app, command->format);
  command->page.add_to(*app);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
