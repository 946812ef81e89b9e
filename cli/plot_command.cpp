#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "commands.hpp"
#include "content.hpp"
#include "page_flags.hpp"
#include "pictures.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct PlotCommand {
  std::vector<std::string> files;
  std::string output, kind, y, x, machine;
  double scale = kPixels;
  PageFlags page_flags;
  const CLI::App* app = nullptr;
};

constexpr std::uint64_t kMostText = std::uint64_t{1} << 28;
constexpr const char* kDrawn =
    "a file that plot can draw (sweep, simulate, run, validate, timeline or plan)";
constexpr double kTolerance = 0.1;  // of the band around predictions

enum class Held : std::uint8_t { Sweep, Prediction, Run, Validation, Timeline, Plan };

// What a file holds, judged by its beginning.
struct PlotInput {
  std::string name, text;
  Held held = Held::Sweep;

  explicit PlotInput(const std::string& path) : name(shown_path(path)) {
    text = read_whole(path, kMostText);
    const Content content = content_of(text);
    if (content == Content::Timeline) {
      held = Held::Timeline;
    } else if (content == Content::Plan) {
      held = Held::Plan;
    } else if (content != Content::Sweep && content != Content::Unknown) {
      refuse_content(name, content, kDrawn);
    } else if (content == Content::Unknown) {
      held = held_by_unnamed();
    }
  }
  Records records() const {
    const std::size_t at = text.find_first_not_of(" \t\r\n");
    return at != text.npos && text[at] == '[' ? read_json_records(text, name)
                                              : read_csv_records(text, name);
  }
  // What neither says what it is nor is the CSV of sweep: some JSON, or the CSV of somebody else.
  Held held_by_unnamed() const {
    const std::size_t at = text.find_first_not_of(" \t\r\n");
    if (at == text.npos) return Held::Sweep;  // read_csv_records refuses it: empty
    const auto has = [&](std::string_view field) { return text.find(field) != text.npos; };
    if (text[at] == '{')
      return has("\"groups\"")      ? Held::Validation
             : has("\"transport\"") ? Held::Run
                                    : Held::Prediction;
    if (text[at] != '[' && text.substr(0, text.find('\n')).find(',') == text.npos)
      fail("{} is not {}", name, kDrawn);
    return Held::Sweep;
  }
  const char* what() const {
    constexpr const char* kNames[] = {"a sweep",      "a prediction", "the JSON of a run",
                                      "a validation", "a timeline",   "a plan"};
    return kNames[static_cast<std::size_t>(held)];
  }
};

std::string usual_kind(const std::vector<PlotInput>& inputs) {
  switch (inputs[0].held) {
    case Held::Sweep:
      return has_lines(inputs[0].records()) ? "lines" : "breakdown";
    case Held::Run:
      return "runs";
    case Held::Prediction:
      return inputs[0].text.find("\"runs_us\"") != std::string::npos ? "runs" : "breakdown";
    case Held::Validation:
      return "scatter";
    case Held::Plan:
      return "traffic";
    case Held::Timeline:
      break;
  }
  return inputs.size() > 1 ? "breakdown" : "memory";
}

void require(const std::vector<PlotInput>& inputs, const std::string& kind, Held held,
             const char* made_by) {
  if (inputs.size() > 1) fail("--kind {} draws one file, not {}", kind, inputs.size());
  if (inputs[0].held != held)
    fail("--kind {} needs {}; {} is {}", kind, made_by, inputs[0].name, inputs[0].what());
}

// Predictions and timelines may stand in one chart; a sweep stands alone.
void refuse_mixture(const std::vector<PlotInput>& inputs) {
  for (const PlotInput& in : inputs)
    if ((in.held == Held::Sweep) != (inputs[0].held == Held::Sweep))
      fail("{} is {}, but {} is {}; give files of one kind", inputs[0].name, inputs[0].what(),
           in.name, in.what());
}

// Bars of predictions and timelines, each file one bar; or of a sweep.
TimeBars bars_of(const std::vector<PlotInput>& inputs) {
  refuse_mixture(inputs);
  if (inputs[0].held == Held::Sweep) {
    require(inputs, "breakdown", Held::Sweep, "");
    return sweep_bars(inputs[0].records());
  }
  TimeBars bars;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PlotUnit unit = PlotUnit::Microseconds;
    TimePanel one;
    if (inputs[i].held == Held::Timeline) {
      const Timeline t = read_timeline(inputs[i].text, inputs[i].name);
      unit = t.unit == TimeUnit::Blocks ? PlotUnit::Blocks : PlotUnit::Microseconds;
      one = {
          fmt::format("{}, {}, {}", printable(t.machine, 60), counted(t.problem.workers, "worker"),
                      counted(t.problem.tokens.value, "token")),
          {timeline_bar(t)}};
      if (t.source != TimelineSource::Predicted)
        one.bars[0].name += fmt::format(" {}", to_text(t.source));
    } else if (inputs[i].held == Held::Prediction) {
      one = prediction_bar(inputs[i].text, inputs[i].name, unit);
    } else {
      fail("--kind breakdown draws sweeps, predictions and timelines; {} is {}{}", inputs[i].name,
           inputs[i].what(),
           inputs[i].held == Held::Run ? "; use the timeline of the run (ringsched run --timeline)"
                                       : "");
    }
    if (i == 0) bars.unit = unit;
    if (unit != bars.unit)
      fail("of {} and {}, one has times in blocks and the other in seconds; plot them separately",
           inputs[0].name, inputs[i].name);
    const auto at = std::find_if(bars.panels.begin(), bars.panels.end(),
                                 [&](const TimePanel& p) { return p.name == one.name; });
    if (at == bars.panels.end())
      bars.panels.push_back(std::move(one));
    else
      at->bars.push_back(std::move(one.bars[0]));
  }
  if (bars.panels.size() == 1) bars.subject = std::exchange(bars.panels[0].name, "");
  return bars;
}

// Of a timeline on a built-in machine, or on the one that is named, with the lines between nodes.
Picture traffic_picture(const std::vector<PlotInput>& inputs, const std::string& machine,
                        const Page& page) {
  if (inputs.size() > 1) fail("--kind traffic draws one file, not {}", inputs.size());
  const PlotInput& in = inputs[0];
  if (in.held != Held::Timeline && in.held != Held::Plan)
    fail("--kind traffic needs a plan or a timeline; {} is {}", in.name, in.what());
  // Another machine than the one that ran it may be too small.
  const auto require_room = [&](const Machine& m, std::uint32_t workers) {
    const std::uint64_t room = std::uint64_t{m.devices()} * m.workers_per_device;
    if (!m.ideal && workers > room)
      fail("{} has {}, but --machine {} has room for {} ({} with {} each)", in.name,
           counted(workers, "worker"), machine, room, counted(m.devices(), "device"),
           counted(m.workers_per_device, "worker"));
  };
  const auto per_node = [&](const std::string& of, std::uint32_t workers) -> std::uint32_t {
    const bool known = std::ranges::any_of(machine_profiles(),
                                           [&](const MachineProfile& p) { return p.name == of; });
    if (machine.empty() && !known) return 0;
    const Machine m = find_machine(machine.empty() ? of : machine);
    if (!machine.empty()) require_room(m, workers);
    return m.ideal ? 0 : (workers + m.devices() - 1) / m.devices() * m.devices_per_node;
  };
  if (in.held == Held::Timeline) {
    const Timeline t = read_timeline(in.text, in.name);
    return traffic_map(traffic_of(t, per_node(t.machine, t.problem.workers)), page);
  }
  const Plan plan = read_plan(in.text, in.name);
  return traffic_map(traffic_of(plan, machine.empty() ? "" : find_machine(machine).name,
                                per_node("", plan.problem.workers)),
                     page);
}

Picture runs_picture(const std::vector<PlotInput>& inputs, const Page& page) {
  RunsPlot plot{.heading = {}, .subject = {}, .rows = {}};
  for (const PlotInput& in : inputs) {
    if (in.held != Held::Prediction && in.held != Held::Run)
      fail("--kind runs needs the JSON of simulate or run; {} is {}", in.name, in.what());
    PlotUnit unit = PlotUnit::Microseconds;
    std::string subject;
    RunsRow row = prediction_runs(in.text, in.name, unit, subject);
    if (plot.rows.empty()) {
      plot.unit = unit;
      plot.subject = subject;
    }
    if (unit != plot.unit)
      fail("of {} and {}, one has times in blocks and the other in seconds; plot them separately",
           inputs[0].name, in.name);
    if (subject != plot.subject)
      fail("{} is of {}, {} of {}; plot them separately", inputs[0].name, plot.subject, in.name,
           subject);
    plot.rows.push_back(std::move(row));
  }
  return runs_plot(plot, page);
}

// The memory of a device, if the machine is a built-in profile that has it.
double device_bytes(const std::string& machine) {
  for (const MachineProfile& p : machine_profiles())
    if (p.name == machine) return find_machine(machine).memory_gb * (std::int64_t{1} << 30);
  return 0;
}

Picture picture_of(const PlotCommand& c, const std::vector<PlotInput>& inputs,
                   const std::string& kind, const Page& page) {
  const auto refuse = [&](const char* flag) {
    if (c.app->count(flag) > 0) fail("{} is only for --kind lines; this is {}", flag, kind);
  };
  if (kind != "lines") {
    refuse("--y");
    refuse("--x");
  }
  if (kind != "traffic" && c.app->count("--machine") > 0)
    fail("--machine is only for --kind traffic; this is {}", kind);
  if (kind == "lines") {
    require(inputs, kind, Held::Sweep, "the CSV or JSON of ringsched sweep");
    return line_plot(
        sweep_lines(inputs[0].records(), parse_plot_y(c.y.empty() ? "time" : c.y), c.x), page);
  }
  if (kind == "map") {
    require(inputs, kind, Held::Sweep, "the CSV or JSON of ringsched sweep");
    return best_map(sweep_map(inputs[0].records()), page);
  }
  if (kind == "pareto") {
    require(inputs, kind, Held::Sweep, "the CSV or JSON of ringsched sweep");
    return front_plot(sweep_front(inputs[0].records()), page);
  }
  if (kind == "traffic") return traffic_picture(inputs, c.machine, page);
  if (kind == "runs") return runs_picture(inputs, page);
  if (kind == "breakdown") return time_bars(bars_of(inputs), page);
  if (kind == "scatter") {
    require(inputs, kind, Held::Validation, "the output of ringsched validate --format json");
    const Plot plot = validation_plot(inputs[0].text, inputs[0].name);
    if (!page.legend)  // the picture does not say it
      for (const std::string& note : plot.notes) fmt::print(stderr, "{}\n", note);
    return agreement_plot(plot, kTolerance, page);
  }
  if (kind == "memory") {
    require(inputs, kind, Held::Timeline, "a timeline (simulate --timeline FILE)");
    const Timeline t = read_timeline(inputs[0].text, inputs[0].name);
    return memory_plot(t, device_bytes(t.machine), page);
  }
  require(inputs, kind, Held::Prediction, "the output of ringsched simulate --format json");
  return tornado(prediction_tornado(inputs[0].text, inputs[0].name), page);
}

void run(const PlotCommand& c) {
  if (!c.kind.empty())
    check_choice(
        "--kind", c.kind,
        {"lines", "map", "pareto", "breakdown", "scatter", "memory", "tornado", "traffic", "runs"});
  if (!c.y.empty()) parse_plot_y(c.y);
  if (!(c.scale >= 0.1 && c.scale <= 20)) fail("--scale is {}; use 0.1 to 20", c.scale);
  check_output(c.output, "--output", c.files);
  const FileKind file = file_kind(c.output, "--output", kPictureKinds);
  Page page = c.page_flags.page();
  if (c.app->count("--scale") > 0) {
    if (file != FileKind::Png) fail("--scale is only for a .png");
    page.pixels = c.scale;
  }
  std::vector<PlotInput> inputs;
  for (const std::string& name : c.files) inputs.emplace_back(name);
  write_picture(picture_of(c, inputs, c.kind.empty() ? usual_kind(inputs) : c.kind, page), file,
                c.output, page.pixels);
  fmt::print("{}\n", c.output);
}

}  // namespace

void add_plot_command(CLI::App& program, ExitCode&) {
  CLI::App* app =
      program.add_subcommand("plot", "Draw charts of sweeps, predictions and validations");
  auto command = std::make_shared<PlotCommand>();
  command->app = app;
  app->add_option(
         "FILE", command->files,
         "CSV or JSON from sweep; JSON from simulate, run or validate; timelines; or a plan. "
         "- is standard input")
      ->type_name("")
      ->required();
  app->add_option("-o,--output", command->output, "picture to write: .svg, .pdf or .png")
      ->type_name("FILE")
      ->required();
  app->add_option(
         "--kind", command->kind,
         "chart to draw (default: the first one listed below for the type of FILE)\n"
         "sweep: lines, map (fastest schedule for each size), pareto (time against memory) or "
         "breakdown (where time goes; the default if neither tokens nor workers vary)\n"
         "simulate JSON: breakdown, tornado (which changes would help) or runs (how makespans "
         "vary)\n"
         "run JSON: runs\n"
         "validate JSON: scatter\n"
         "one timeline: memory, breakdown or traffic (bytes from worker to worker)\n"
         "several timelines: breakdown\n"
         "plan: traffic")
      ->type_name("KIND");
  app->add_option(
         "--y", command->y,
         "vertical axis of --kind lines: time, speedup, tokens-per-second or memory (default time)")
      ->type_name("WHAT");
  app->add_option(
         "--x", command->x,
         "horizontal axis of --kind lines: tokens or workers (default: the one that varies. "
         "If both do: workers if tokens grow with workers, otherwise tokens)")
      ->type_name("WHAT");
  app->add_option("-m,--machine", command->machine,
                  "mark the boundaries between this machine's nodes (default: the timeline's "
                  "machine); --kind "
                  "traffic only")
      ->type_name("NAME");
  app->add_option(
         "--scale", command->scale,
         "pixels per point, .png only (default 2, or 4.17 with --for column or text, which is 300 "
         "pixels per inch)")
      ->type_name("NUMBER");
  command->page_flags.add_to(*app);
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
