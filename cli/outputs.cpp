#include "outputs.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/trace.hpp"

namespace ringsched {

CLI::Option* add_path_look(CLI::App& app, std::string& value) {
  return app
      .add_option(
          "--critical-path", value,
          "how charts show the critical path: fade (all else is pale), outline or none "
          "(default: fade if the chart shows a single run of at most 16 workers with only one "
          "critical path; otherwise none)")
      ->type_name("HOW");
}

void OutputFlags::add_to(CLI::App& app) {
  const auto flag = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->type_name("FILE")->group("Output");
  };
  flag("--timeline", timeline_, "write all tasks and their times (JSON)");
  flag("--gantt", gantt_, "draw a Gantt chart of the run: .svg, .pdf, .png or .html");
  flag("--block-map", block_map_,
       "draw the block map (which worker computes which block): .svg, .pdf or .png");
  flag("--trace", trace_, "write a trace for Perfetto: .json");
  page_.add_to(app);
}

void OutputFlags::add_path_to(CLI::App& app) { add_path_look(app, path_)->group("Output"); }

bool OutputFlags::any() const {
  return !timeline_.empty() || !gantt_.empty() || !block_map_.empty() || !trace_.empty();
}

OutputKinds OutputFlags::kinds(std::vector<std::string> inputs) const {
  OutputKinds kinds;
  if (!gantt_.empty()) kinds.gantt = file_kind(gantt_, "--gantt", kGanttKinds);
  if (!block_map_.empty()) kinds.block_map = file_kind(block_map_, "--block-map", kPictureKinds);
  if (!trace_.empty()) file_kind(trace_, "--trace", kTraceKinds);
  page_.page();  // refuses what it does not know before any work
  if ((gantt_.empty() || kinds.gantt == FileKind::Html) && block_map_.empty())
    page_.refuse("is only for pictures: --gantt or --block-map FILE (.svg, .pdf or .png)");
  if (!path_.empty()) {
    parse_path_look("--critical-path", path_);
    if (gantt_.empty() || kinds.gantt == FileKind::Html)
      fail("--critical-path is only for a chart: --gantt FILE (.svg, .pdf or .png)");
  }
  for (const auto& [flag, file] : {std::pair{"--timeline", &timeline_},
                                   {"--gantt", &gantt_},
                                   {"--block-map", &block_map_},
                                   {"--trace", &trace_}}) {
    check_output(*file, flag, inputs);
    inputs.push_back(*file);
  }
  return kinds;
}

void OutputFlags::require_drawable(const Plan& plan) const {
  if (!block_map_.empty()) require_block_map(plan);
}

std::string OutputFlags::write(OutputKinds kinds, const Plan& plan,
                               std::span<const Timeline> timelines) const {
  std::string lines;
  const auto wrote = [&](const char* what, const std::string& file) {
    lines += fmt::format("{:<10} {}\n", what, file);
  };
  const Timeline& run = timelines.back();
  const Page page = page_.page();
  if (!timeline_.empty()) {
    write_timeline_file(run, timeline_);
    wrote("timeline", timeline_);
  }
  if (!gantt_.empty()) {
    GanttOptions options{.page = page};
    if (!path_.empty()) options.path = parse_path_look("--critical-path", path_);
    if (kinds.gantt == FileKind::Html)
      write_text(html_page(timelines), gantt_);
    else
      write_picture(timelines.size() == 1 ? gantt(run, options) : gantt(timelines[0], run, options),
                    kinds.gantt, gantt_, page.pixels);
    wrote("gantt", gantt_);
  }
  if (!block_map_.empty()) {
    const Plan* const plans[] = {&plan};
    write_picture(block_map(plans, page), kinds.block_map, block_map_, page.pixels);
    wrote("block map", block_map_);
  }
  if (!trace_.empty()) {
    write_text(chrome_trace(run), trace_);
    wrote("trace", trace_);
  }
  return lines;
}

}  // namespace ringsched
