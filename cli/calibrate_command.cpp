#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "commands.hpp"
#include "launch_flags.hpp"
#include "pictures.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/machine.hpp"
#include "run_ending.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CalibrateCommand {
  JoinFlags join;
  std::string deadline = "600";
  std::string backend = "cpu", output, name = "this-cpu", cores = "0", most = "4K";
};

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      const std::size_t at = line.find(':');
      if (at != line.npos && at + 2 < line.size()) return printable(line.substr(at + 2), 60);
    }
  return "CPU";
}

// As short as it may be without losing more than measuring loses anyway.
std::string figure(double x) { return fmt::format("{:.4g}", x); }

template <class T, class F>
std::string list(const std::vector<T>& all, F text) {
  std::string out;
  for (const T& x : all) out += (out.empty() ? "" : ", ") + text(x);
  return "[" + out + "]";
}

// Between processes: each is a node of the profile, with the cores that it has for itself.
struct LinkFiguresMeasured {
  std::uint32_t processes = 1;
  std::string transport;
  double latency_us = 0, gb_per_s = 0;
  std::vector<MeasuredMessage> messages;
};

std::string profile(const CpuFigures& f, const LinkFiguresMeasured& links,
                    const std::string& name) {
  const std::string source =
      fmt::format("measured by ringsched calibrate on {:%Y-%m-%d}, all cores at work",
                  fmt::gmtime(std::chrono::system_clock::now()));
  std::string out = fmt::format(
      "# Made by ringsched calibrate; measured anew by the same command.\n"
      "name = \"{}\"\n"
      "summary = \"{} of {}, {}; workers are threads{}\"\n\n"
      "[devices]\nnodes = {}\nper_node = 1\nworkers_each = 1024\nconcurrency = {}\n"
      "source = \"the cores that the system gives\"\n\n"
      "[memory]\ngb_per_s = {}\nsource = \"a merge on each core, {}\"\n\n"
      "[launch]\nus = {}\nsource = \"from task to task, {}\"\n\n",
      escaped(name), counted(f.cores, "core"), escaped(cpu_model()), f.instructions,
      links.processes > 1 ? fmt::format(" of {} processes", links.processes) : "", links.processes,
      f.cores, figure(f.memory_gb_per_s), source, figure(f.task_us), source);
  out += fmt::format(
      "[fabric]\nkind = \"memory\"\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
      "source = \"copies on all cores; messages between two threads, {}\"\n\n",
      figure(f.copy_gb_per_s), figure(f.latency_us),
      list(f.messages,
           [](const MeasuredMessage& m) {
             return fmt::format("[{}, {}]", m.bytes, figure(m.gb_per_s));
           }),
      source);
  if (links.processes > 1)
    out += fmt::format(
        "[network]\nnics = 1\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
        "source = \"one message between the first and the last process, by {}, {}\"\n\n",
        figure(links.gb_per_s), figure(links.latency_us),
        list(links.messages,
             [](const MeasuredMessage& m) {
               return fmt::format("[{}, {}]", m.bytes, figure(m.gb_per_s));
             }),
        links.transport, source);
  out += fmt::format(
      "[software]\nmerge_bytes = {}\nreduce_bytes = {}\nprepare_bytes = {}\noutput_bytes = 0\n"
      "source = \"times of those tasks at the rate above, {}\"\n",
      figure(f.merge_bytes), figure(f.reduce_bytes), figure(f.prepare_bytes), source);
  for (const MeasuredKernel& k : f.kernels)
    out += fmt::format(
        "\n[[kernel]]\npass = \"{}\"\nmask = \"{}\"\ndtypes = [\"{}\"]\nhead_dim = {}\ntokens = "
        "{}\n"
        "tflops = {}\nsource = \"{}\"\n",
        k.backward ? "backward" : "forward", k.causal ? "causal" : "full", to_text(k.dtype),
        k.head_dim, list(k.tokens, [](std::int64_t n) { return std::to_string(n); }),
        list(k.tflops, figure), source);
  return out;
}

void summary(const CpuFigures& f) {
  fmt::print("{}, {}: merging {} GB/s a core, copying {} GB/s, a message {} us and more\n",
             counted(f.cores, "core"), f.instructions, figure(f.memory_gb_per_s),
             figure(f.copy_gb_per_s), figure(f.latency_us));
  std::vector<std::vector<std::string>> rows = {
      {"TFLOP/s of a core", "mask", "dtype", "head dim", "64 tokens", "512", "most"}};
  for (const MeasuredKernel& k : f.kernels)
    rows.push_back({k.backward ? "backward" : "forward", k.causal ? "causal" : "full",
                    std::string(to_text(k.dtype)), std::to_string(k.head_dim),
                    fmt::format("{:.3f}", k.tflops.front()),
                    fmt::format("{:.3f}", k.tflops[std::min<std::size_t>(3, k.tflops.size() - 1)]),
                    fmt::format("{:.3f}", k.tflops.back())});
  fmt::print("{}", table(rows));
}

CpuFigures measured_cpu(const CalibrationOptions& options, bool speaks) {
  const bool watched = speaks && isatty(STDERR_FILENO) != 0;
  return measure_cpu(options, [&](const std::string& what, double done) {
    if (watched) std::fprintf(stderr, "\r\033[K%3.0f %%  %s", 100 * done, what.c_str());
    if (watched && done >= 1) std::fprintf(stderr, "\r\033[K");
  });
}

LinkFiguresMeasured measured_links(World& world, Control& control, Watchdog& watchdog) {
  const auto measured = [&](LinkPattern pattern, const LinkBenchOptions& o) {
    return measure_links(world, control, pattern, o, [&](std::int64_t bytes) {
      watchdog.waits(fmt::format("measuring messages of {} bytes", bytes));
    });
  };
  LinkFiguresMeasured out;
  out.processes = world.size();
  out.transport = world.name();
  out.latency_us = measured(LinkPattern::Alone, {1, 1, 2, 200, 20})[0].us;
  double longest = out.latency_us;  // a longer message does not arrive sooner
  for (const LinkPoint& p : measured(LinkPattern::Alone, {16 << 10, 16 << 20, 4, 20, 3})) {
    longest = std::max(1.01 * longest, p.us);
    out.messages.push_back({p.bytes, static_cast<double>(p.bytes) / longest / 1e3});
    out.gb_per_s = std::max(out.gb_per_s, 1.01 * out.messages.back().gb_per_s);
  }
  return out;
}

void write_profile(const CalibrateCommand& c, const CpuFigures& figures,
                   const LinkFiguresMeasured& links) {
  const std::string text = profile(figures, links, c.name);
  read_machine(text, c.output);  // what is written can be read
  write_text(text, c.output);
  summary(figures);
  if (links.processes > 1)
    fmt::print("between processes, by {}: {} GB/s, a message {} us and more\n", links.transport,
               figure(links.gb_per_s), figure(links.latency_us));
  fmt::print("\nprofile    {}\n", c.output);
}

void run(const CalibrateCommand& c) {
  if (c.backend != "cpu") fail("--backend is '{}', allowed is cpu", c.backend);
  if (!c.output.ends_with(".toml"))
    fail("--output {}: a profile is a file that ends in .toml", c.output);
  check_output(c.output, "--output");
  CalibrationOptions options;
  const std::int64_t cores = parse_count(c.cores, "--cores");
  if (cores < 0 || cores > 4096) fail("--cores is {}, allowed are 0 (all) to 4096", c.cores);
  options.cores = static_cast<unsigned>(cores);
  options.most_tokens = parse_count(c.most, "--most-tokens");
  if (options.most_tokens < 64 || options.most_tokens > 65536)
    fail("--most-tokens is {}, allowed are 64 to 64K", c.most);
  c.join.check();
  const std::chrono::seconds deadline{parse_count(c.deadline, "--deadline")};
  if (deadline.count() < 1) fail("--deadline is {}, allowed are 1 and more", c.deadline);
  const Launch launch = launched_by(c.join.launch);
  if (launch.size == 1) {
    const CpuFigures figures = measured_cpu(options, true);
    write_profile(c, figures, {});
    return;
  }
  Control control;
  const Interruptible interruptible(control);
  End end(control, launch);
  Watchdog watchdog(control, end, deadline);
  watchdog.waits("looking for the other processes");
  const std::unique_ptr<World> world = world_of(c.join, launch, deadline, control);
  end.finally([&](const std::string& why) { world->last_words({why, {}, false}); });
  try {
    // At the same time, as in a run.
    if (options.cores == 0)
      options.cores = std::max(1u, std::thread::hardware_concurrency() / processes_here(*world));
    watchdog.works("measuring its cores");
    const CpuFigures figures = measured_cpu(options, world->rank() == 0);
    const LinkFiguresMeasured links = measured_links(*world, control, watchdog);
    if (world->rank() == 0) write_profile(c, figures, links);
    watchdog.waits("taking leave of the other processes");
    world->leave();
  } catch (...) {
    give_up(*world, control, end);
  }
  end.finally({});
}

}  // namespace

void add_calibrate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("calibrate", "Measure this machine, for predictions");
  auto command = std::make_shared<CalibrateCommand>();
  app->add_option("-o,--output", command->output, "write the profile here: .toml")
      ->required()
      ->type_name("FILE");
  app->add_option("--backend", command->backend, "what to measure: cpu (cpu)")->type_name("NAME");
  app->add_option("--name", command->name, "of the profile (this-cpu)")->type_name("NAME");
  app->add_option("--cores", command->cores, "so many at work; 0: all (0)")->type_name("N");
  app->add_option("--most-tokens", command->most, "of the largest tile (4K)")->type_name("N");
  command->join.add_to(*app, false);
  app->add_option("--deadline", command->deadline, "seconds to wait for other processes (600)")
      ->type_name("SECONDS");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
