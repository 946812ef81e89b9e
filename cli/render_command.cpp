#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "pictures.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "ringsched/viz/trace.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct RenderCommand {
  std::vector<std::string> files;
  std::string output, as;
  double width = 1100, scale = 2;
  std::string worker, steps, kineto;
  bool no_path = false, graph = false;
};

// Timelines and plans both say what they are near their beginning. What is neither is read as a
// plan, which says what is wrong with it.
bool is_timeline(const std::string& path) {
  if (path == "-") return true;
  std::string head(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("\"ringsched-timeline\"") != head.npos;
}

std::uint32_t worker_of(const RenderCommand& c) {
  const std::int64_t n = parse_count(c.worker, "--worker");
  if (n < 0) fail("--worker {}: allowed are 0 and more", c.worker);
  return static_cast<std::uint32_t>(std::min<std::int64_t>(n, kMaxWorkers));
}

void write_kineto(const Timeline& t, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) fail("cannot write {}: {}", folder, failed.message());
  for (std::uint32_t w = 0; w < t.problem.workers; ++w)
    write_text(kineto_trace(t, w), fmt::format("{}/rank-{}.json", folder, w));
}

void render_timelines(const RenderCommand& c) {
  if (c.graph || !c.steps.empty()) fail("--graph and --steps take a plan, and this is a timeline");
  std::vector<Timeline> timelines;
  for (const std::string& file : c.files) timelines.push_back(read_timeline_file(file));
  if (!c.kineto.empty()) {
    if (timelines.size() > 1) fail("--kineto takes one timeline, not {}", timelines.size());
    write_kineto(timelines[0], c.kineto);
    fmt::print("{}\n", c.kineto);
    if (c.output.empty()) return;
  }
  if (c.output.empty()) {
    for (const Timeline& t : timelines) fmt::print("{}", terminal_chart(t));
    return;
  }
  const FileKind kind = file_kind(c.output, "--output", kTimelineKinds);
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
    fail(
        "a chart shows one timeline, or two against each other, not {}; a .html page takes them "
        "all",
        timelines.size());
  GanttOptions options{c.width, !c.no_path, {}};
  if (!c.worker.empty()) options.worker = worker_of(c);
  write_picture(timelines.size() == 1 ? gantt(timelines[0], options)
                                      : gantt(timelines[0], timelines[1], options),
                kind, c.output, c.scale);
}

// "3" or "2-5".
GraphPart part_of(const RenderCommand& c) {
  GraphPart part;
  if (!c.worker.empty()) part.worker = WorkerId{worker_of(c)};
  if (c.steps.empty()) return part;
  const std::size_t dash = c.steps.find('-', 1);
  const auto step = [&](const std::string& text) {
    const std::int64_t n = parse_count(text, "--steps");
    if (n < 0 || n > 0xffffffff) fail("--steps {}: allowed are 0 to 4294967295", c.steps);
    return static_cast<Step>(n);
  };
  part.first_step = step(c.steps.substr(0, dash));
  part.last_step = dash == c.steps.npos ? part.first_step : step(c.steps.substr(dash + 1));
  return part;
}

void render_graph(const RenderCommand& c, FileKind kind) {
  if (c.files.size() > 1) fail("a task graph shows one plan, not {}", c.files.size());
  const std::string dot = task_graph_dot(read_plan_file(c.files[0]), part_of(c));
  write_text(kind == FileKind::Dot   ? dot
             : kind == FileKind::Svg ? laid_out(dot, GraphFormat::Svg)
             : kind == FileKind::Pdf ? laid_out(dot, GraphFormat::Pdf)
                                     : laid_out(dot, GraphFormat::Png),
             c.output);
}

void render_plans(const RenderCommand& c) {
  if (!c.kineto.empty()) fail("--kineto takes a timeline, and this is a plan");
  if (c.output.empty())
    fail("a plan is drawn to a file: give --output map.svg (or .pdf, .png, .dot)");
  const FileKind kind = file_kind(c.output, "--output", kPlanKinds);
  if (c.graph || kind == FileKind::Dot) return render_graph(c, kind);
  if (!c.steps.empty() || !c.worker.empty())
    fail("--worker and --steps are for task graphs: add --graph, or write a .dot file");
  std::vector<Plan> plans;
  for (const std::string& file : c.files) plans.push_back(read_plan_file(file));
  std::vector<const Plan*> all;
  for (const Plan& p : plans) all.push_back(&p);
  write_picture(block_map(all), kind, c.output, c.scale);
}

void run(const RenderCommand& c) {
  if (!(c.scale >= 0.1 && c.scale <= 20)) fail("--scale {}: allowed are 0.1 to 20", c.scale);
  std::size_t timelines = 0;
  for (const std::string& file : c.files) timelines += is_timeline(file) ? 1 : 0;
  if (timelines != 0 && timelines != c.files.size())
    fail("plans and timelines do not go into one picture");
  timelines > 0 ? render_timelines(c) : render_plans(c);
  if (!c.output.empty()) fmt::print("{}\n", c.output);
}

}  // namespace

void add_render_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("render", "Draw plans and timelines");
  auto command = std::make_shared<RenderCommand>();
  app->add_option("FILE", command->files,
                  "timelines: one, or two to compare; or plans,\nto be drawn side by side")
      ->type_name("")
      ->required();
  app->add_option("-o,--output", command->output,
                  "of timelines: .svg, .pdf, .png, a .html page, or a\n.json trace for Perfetto; "
                  "without it they are drawn\nhere. Of plans: .svg, .pdf, .png of who computes\n"
                  "which block, or a .dot task graph")
      ->type_name("FILE");
  app->add_option("--kineto", command->kineto,
                  "write what PyTorch's profiler would have written,\na file for each worker, for "
                  "HolisticTraceAnalysis")
      ->type_name("FOLDER");
  app->add_option("--width", command->width, "of a chart of a timeline, in points (1100)")
      ->type_name("POINTS");
  app->add_option("--scale", command->scale, "pixels per point, of a PNG (2)")->type_name("NUMBER");
  app->add_flag("--graph", command->graph, "of a plan: its task graph, not its blocks");
  app->add_option("--worker", command->worker, "this worker alone: of a chart or a task graph")
      ->type_name("N");
  app->add_option("--steps", command->steps, "these steps alone, of a task graph: 3 or 2-5")
      ->type_name("A-B");
  app->add_flag("--no-critical-path", command->no_path, "do not outline the critical path");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
