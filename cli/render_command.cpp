#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>

#include "commands.hpp"
#include "content.hpp"
#include "machine_flags.hpp"
#include "outputs.hpp"
#include "page_flags.hpp"
#include "pictures.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/step_map.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "ringsched/viz/trace.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct RenderCommand {
  std::vector<std::string> files;
  std::string output, as;
  double width = 1100, scale = kPixels;
  PageFlags page_flags;
  std::string worker, steps, kineto;
  std::string path;
  bool graph = false, by_step = false;
  const CLI::App* app = nullptr;  // which flags were given
};

// With the pixels of --scale.
Page page_of(const RenderCommand& c) {
  Page page = c.page_flags.page();
  if (c.app->count("--scale") > 0) page.pixels = c.scale;
  return page;
}

// What is drawn: a file, or the text of a stream, which can only be read once.
struct Input {
  std::string name, text;
  bool stream = false, timeline = false, plan = false;

  // Timelines and plans both name their format near the beginning. Anything else is read as a plan,
  // and the reader reports what is wrong.
  explicit Input(const std::string& path) : name(shown_path(path)) {
    std::error_code ignored;
    stream = path == "-" || (std::filesystem::exists(path, ignored) &&
                             !std::filesystem::is_regular_file(path, ignored));
    if (stream)
      text = read_json(path, kMostText);
    else if (!std::ifstream(path))
      fail("cannot read {}: {}", path, std::strerror(errno));
    const Content held = content_of(stream ? text : beginning_of(path));
    if (held != Content::Plan && held != Content::Timeline)
      refuse_content(name, held, "a plan or a timeline");
    timeline = held == Content::Timeline;
    plan = held == Content::Plan;
  }
  Timeline read_timeline() const {
    return stream ? ringsched::read_timeline(text, name) : read_timeline_file(name);
  }
  Plan read_plan() const {
    return stream ? ringsched::read_plan(text, name) : read_plan_file(name);
  }

 private:
  static constexpr std::uint64_t kMostText = std::uint64_t{1} << 30;
};

// Refuses flags that have no meaning here.
void refuse(const RenderCommand& c, std::initializer_list<const char*> flags, const char* where) {
  for (const char* flag : flags)
    if (c.app->count(flag) > 0) fail("{} is only for {}", flag, where);
}

std::uint32_t worker_of(const RenderCommand& c) {
  return static_cast<std::uint32_t>(number_of(c.worker, "--worker", 0, kMaxWorkers));
}

void write_kineto(const Timeline& t, const std::string& folder,
                  const std::vector<std::string>& inputs) {
  std::error_code failed;
  const std::filesystem::path parent = std::filesystem::absolute(folder).parent_path();
  if (!std::filesystem::is_directory(parent, failed))
    fail("cannot write {}: no such folder: {}", folder, parent.string());
  std::filesystem::create_directory(folder, failed);
  if (failed) fail("cannot write {}: {}", folder, failed.message());
  const std::string other = fmt::format("{}/rank-{}.json", folder, t.problem.workers);
  if (std::filesystem::exists(other, failed))
    fail("{} holds a run with more workers ({}); use another folder, or empty it", folder, other);
  const auto file_of = [&](std::uint32_t w) { return fmt::format("{}/rank-{}.json", folder, w); };
  for (std::uint32_t w = 0; w < t.problem.workers; ++w)
    check_output(file_of(w), "--kineto", inputs);
  for (std::uint32_t w = 0; w < t.problem.workers; ++w) write_text(kineto_trace(t, w), file_of(w));
}

void render_timelines(const RenderCommand& c, const std::vector<Input>& inputs) {
  if (c.graph || c.by_step || !c.steps.empty())
    fail("{} needs a plan; {} is a timeline",
         c.graph     ? "--graph"
         : c.by_step ? "--by-step"
                     : "--steps",
         inputs[0].name);
  const FileKind kind =
      c.output.empty() ? FileKind::Json : file_kind(c.output, "--output", kTimelineKinds);
  const bool chart = !c.output.empty() && kind != FileKind::Json && kind != FileKind::Html;
  if (!chart) {
    refuse(c, {"--worker", "--width", "--critical-path"}, "charts in a .svg, .pdf or .png");
    c.page_flags.refuse("is only for pictures in a .svg, .pdf or .png");
  }
  if (!chart || kind != FileKind::Png) refuse(c, {"--scale"}, "a .png");
  std::vector<Timeline> timelines;
  for (const Input& input : inputs) timelines.push_back(input.read_timeline());
  if (!c.kineto.empty()) {
    if (timelines.size() > 1) fail("--kineto takes one timeline, not {}", timelines.size());
    if (c.kineto == c.output) fail("--kineto {} is also --output", c.kineto);
    if (!c.worker.empty() && worker_of(c) >= timelines[0].problem.workers)
      fail("--worker is {}; the timeline has {} workers", c.worker, timelines[0].problem.workers);
    write_kineto(timelines[0], c.kineto, c.files);
    fmt::print("{}\n", c.kineto);
    if (c.output.empty()) return;
  }
  if (c.output.empty()) {
    for (std::size_t i = 0; i < timelines.size(); ++i) {
      const Timeline& t = timelines[i];
      if (timelines.size() > 1)
        fmt::print("{}{}: {} on {}, {}\n", i > 0 ? "\n" : "", printable(c.files[i]),
                   printable(t.schedule, kMostOfName), printable(t.machine),
                   duration(t.makespan(), t.unit));
      fmt::print("{}", terminal_chart(t));
      if (!t.incomplete.empty())
        fmt::print("INCOMPLETE, {} of {} tasks did not finish: {}\n", t.unfinished.size(),
                   t.tasks.size(), printable(t.incomplete, 300));
    }
    return;
  }
  if (kind == FileKind::Json) {
    if (timelines.size() > 1) fail("a trace shows one timeline, not {}", timelines.size());
    write_text(chrome_trace(timelines[0]), c.output);
    return;
  }
  if (kind == FileKind::Html) {
    write_text(html_page(timelines), c.output);
    return;
  }
  if (timelines.size() > 2)
    fail("a chart shows one or two timelines, not {}; a .html page shows them all",
         timelines.size());
  const Page page = page_of(c);
  if (page.fixed() && c.app->count("--width") > 0) fail("--for and --width both set the width");
  GanttOptions options{c.width, {}, {}, page};
  if (!c.path.empty()) options.path = parse_path_look("--critical-path", c.path);
  if (!c.worker.empty()) options.worker = worker_of(c);
  write_picture(timelines.size() == 1 ? gantt(timelines[0], options)
                                      : gantt(timelines[0], timelines[1], options),
                kind, c.output, page.pixels);
}

// "3" or "2-5".
GraphPart part_of(const RenderCommand& c) {
  GraphPart part;
  if (!c.worker.empty()) part.worker = WorkerId{worker_of(c)};
  if (c.steps.empty()) return part;
  const std::size_t dash = c.steps.find('-', 1);
  const auto step = [&](const std::string& text) {
    Step n = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, n);
    if (error != std::errc{} || end != last)
      fail("--steps is '{}'; use one step (3) or a range (2-5)", printable(c.steps));
    return n;
  };
  part.first_step = step(c.steps.substr(0, dash));
  part.last_step = dash == c.steps.npos ? part.first_step : step(c.steps.substr(dash + 1));
  return part;
}

void render_graph(const RenderCommand& c, const std::vector<Input>& inputs, FileKind kind) {
  if (inputs.size() > 1) fail("a task graph shows one plan, not {}", inputs.size());
  if (kind != FileKind::Png) refuse(c, {"--scale"}, "a .png");
  if (kind == FileKind::Dot) c.page_flags.refuse("is only for pictures in a .svg, .pdf or .png");
  const Page page = page_of(c);
  const Plan plan = inputs[0].read_plan();
  const GraphPart part = part_of(c);
  write_text(kind == FileKind::Dot   ? task_graph_dot(plan, part, page)
             : kind == FileKind::Svg ? task_graph(plan, part, GraphFormat::Svg, page)
             : kind == FileKind::Pdf ? task_graph(plan, part, GraphFormat::Pdf, page)
                                     : task_graph(plan, part, GraphFormat::Png, page),
             c.output);
}

void render_plans(const RenderCommand& c, const std::vector<Input>& inputs) {
  if (!c.kineto.empty()) fail("--kineto needs a timeline; {} is a plan", inputs[0].name);
  if (c.output.empty() && !inputs[0].plan)
    fail("{} is neither a plan nor a timeline", inputs[0].name);
  if (c.output.empty())
    fail("{} is a plan, which is drawn to a file: add --output FILE (.svg, .pdf, .png or .dot)",
         inputs[0].name);
  refuse(c, {"--width", "--critical-path"}, "charts of timelines");
  const FileKind kind = file_kind(c.output, "--output", kPlanKinds);
  if (c.by_step && c.graph)
    fail("--by-step draws blocks, --graph a task graph: leave out --graph or --by-step");
  if (c.by_step && kind == FileKind::Dot)
    fail("--by-step draws blocks, a .dot file is a task graph: write a .svg, .pdf or .png");
  if (c.graph || kind == FileKind::Dot) return render_graph(c, inputs, kind);
  if (kind != FileKind::Png) refuse(c, {"--scale"}, "a .png");
  if (!c.steps.empty() || !c.worker.empty())
    fail("{} needs a task graph: add --graph, or write a .dot file",
         c.worker.empty() ? "--steps" : "--worker");
  if (c.by_step) {
    if (inputs.size() > 1) fail("a picture by step shows one plan, not {}", inputs.size());
    const Page page = page_of(c);
    return write_picture(step_map(inputs[0].read_plan(), page), kind, c.output, page.pixels);
  }
  std::vector<Plan> plans;
  for (const Input& input : inputs) plans.push_back(input.read_plan());
  std::vector<const Plan*> all;
  for (const Plan& p : plans) all.push_back(&p);
  const Page page = page_of(c);
  write_picture(block_map(all, page), kind, c.output, page.pixels);
}

void run(const RenderCommand& c) {
  if (!(c.scale >= 0.1 && c.scale <= 20)) fail("--scale is {}; use 0.1 to 20", c.scale);
  check_output(c.output, "--output", c.files);
  std::vector<Input> inputs;
  std::size_t timelines = 0;
  for (const std::string& file : c.files) timelines += inputs.emplace_back(file).timeline ? 1 : 0;
  if (timelines != 0 && timelines != inputs.size())
    fail("cannot draw plans and timelines in one picture");
  timelines > 0 ? render_timelines(c, inputs) : render_plans(c, inputs);
  if (!c.output.empty()) fmt::print("{}\n", c.output);
}

}  // namespace

void add_render_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("render", "Draw plans and timelines");
  auto command = std::make_shared<RenderCommand>();
  command->app = app;
  app->add_option("FILE", command->files,
                  "timelines (one, or two to compare) or plans (drawn side by side)")
      ->type_name("")
      ->required();
  app->add_option("-o,--output", command->output,
                  "file to write. Timelines: .svg, .pdf, .png or .html chart, or .json trace for "
                  "Perfetto (default: a chart in the terminal). Plans: .svg, .pdf or .png map of "
                  "which worker computes which block, or .dot task graph")
      ->type_name("FILE");
  app->add_option("--kineto", command->kineto,
                  "write one PyTorch profiler trace per worker, for HolisticTraceAnalysis")
      ->type_name("FOLDER");
  app->add_option("--width", command->width,
                  "chart width in points, 400 to 10000, timelines only (default 1100)")
      ->type_name("POINTS");
  app->add_option(
         "--scale", command->scale,
         "pixels per point, .png only (default 2, or 4.17 with --for column or text, which is 300 "
         "pixels per inch)")
      ->type_name("NUMBER");
  app->add_flag("--graph", command->graph, "draw the task graph of a plan instead of its blocks");
  app->add_flag("--by-step", command->by_step,
                "draw, step by step, the blocks that each worker computes and what it receives");
  app->add_option("--worker", command->worker, "draw only this worker (charts and task graphs)")
      ->type_name("N");
  app->add_option("--steps", command->steps, "draw only these steps (task graphs), e.g. 3 or 2-5")
      ->type_name("A-B");
  add_path_look(*app, command->path);
  command->page_flags.add_to(*app);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
