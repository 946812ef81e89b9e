#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate_profile.hpp"
#include "commands.hpp"
#include "launch_flags.hpp"
#include "pictures.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/ending.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/modules.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CalibrateCommand {
  JoinFlags join;
  std::string deadline = "600";
  std::string backend = "cpu", output, name, cores = "0", workers = "1", heads, kv_heads, most,
              head_dims, dtypes, passes = "both", take;
};

void summary(const CpuFigures& f) {
  fmt::print("{}, {}", counted(f.cores, "core"), f.instructions);
  if (f.cores > 1)
    fmt::print("; tasks take {:.3g} times as long with all cores at work as on one alone",
               f.slowdown);
  if (f.noise > 0) fmt::print(", and differ by {:.0f} %", 100 * f.noise);
  if (f.noise > kMostNoise)
    fmt::print(" ({:.0f} % in the profile, the most that it may have)", 100 * kMostNoise);
  fmt::print("\n");
  fmt::print(
      "with all at work: merging {} GB/s a core, copying {} GB/s, a message {} us and more\n",
      figure(f.memory_gb_per_s), figure(f.copy_gb_per_s), figure(f.latency_us));
  std::vector<std::vector<std::string>> rows = {
      {f.cores > 1 ? "TFLOP/s of a core, all at work" : "TFLOP/s of the core", "mask", "dtype",
       "head dim"}};
  const std::vector<std::int64_t>& tokens = f.kernels.front().tokens;
  std::vector<std::size_t> shown = {0};  // the least, one between, the most
  if (tokens.size() > 4) shown.push_back(3);
  if (tokens.size() > 1) shown.push_back(tokens.size() - 1);
  for (const std::size_t i : shown)
    rows[0].push_back(fmt::format("{}{}", tokens[i], i == 0 ? " tokens" : ""));
  for (const MeasuredKernel& k : f.kernels) {
    rows.push_back({k.backward ? "backward" : "forward", k.causal ? "causal" : "full",
                    std::string(to_text(k.dtype)), std::to_string(k.head_dim)});
    for (const std::size_t i : shown) rows.back().push_back(fmt::format("{:.3f}", k.tflops[i]));
  }
  fmt::print("{}", table(rows));
  if (f.slowdown > 1)
    fmt::print("the profile has the rates of one core alone, and that slowdown\n");
  if (f.disturbed > 0)
    fmt::print(
        "{} did not settle: something else is at work on this machine or its host, and runs\n"
        "in a quieter hour will be faster than predicted from them\n",
        how_many_disturbed(f));
}

void summary(const CudaFigures& f) {
  fmt::print("{}, {}, {}; {} on {} multiprocessors{}\n", f.name, f.driver, f.library,
             counted(f.workers, "worker"), f.multiprocessors,
             f.workers > 1 && f.shared.empty() ? " each" : "");
  if (!f.shared.empty()) fmt::print("they share them: {}\n", f.shared);
  fmt::print("{}\n", f.remarks);
  fmt::print(
      "merging {} GB/s a worker; a copy kernel {} GB/s; messages {} GB/s together, {} us and more; "
      "attention beside them takes {} times as long\n"
      "a task {} us, {} us without its times\n",
      figure(f.memory_gb_per_s), figure(f.copy_roof_gb_per_s), figure(f.copy_gb_per_s),
      figure(f.latency_us), figure(f.slowdown), figure(f.launch_us),
      figure(f.launch_without_times_us));
  std::vector<std::vector<std::string>> rows = {
      {"TFLOP/s of a worker", "mask", "dtype", "head dim", "least", "1K tokens", "most"}};
  for (const MeasuredKernel& k : f.kernels)
    rows.push_back({k.backward ? "backward" : "forward", k.causal ? "causal" : "full",
                    std::string(to_text(k.dtype)), std::to_string(k.head_dim),
                    fmt::format("{:.1f}", k.tflops.front()),
                    fmt::format("{:.1f}", k.tflops[std::min<std::size_t>(2, k.tflops.size() - 1)]),
                    fmt::format("{:.1f}", k.tflops.back())});
  fmt::print("{}", table(rows));
}

std::int64_t count(const std::string& text, const char* flag, std::int64_t least,
                   std::int64_t most) {
  const std::int64_t n = parse_count(text, flag);
  if (n < least || n > most) fail("{} is {}, allowed are {} to {}", flag, text, least, most);
  return n;
}

// What is measured twice would be twice in the profile, which is then refused.
template <class T>
void add_once(std::vector<T>& all, T one, const char* flag, const std::string& given) {
  if (std::find(all.begin(), all.end(), one) != all.end()) fail("{} has '{}' twice", flag, given);
  all.push_back(one);
}

// Flags that both kinds of machine have.
template <class Options>
void apply(const CalibrateCommand& c, std::int64_t most, Options& options) {
  options.most_tokens = c.most.empty() ? most : count(c.most, "--most-tokens", 64, 65536);
  if (!c.head_dims.empty()) {
    options.head_dims.clear();
    for (const std::string& one : list_of(c.head_dims, "--head-dim"))
      add_once(options.head_dims,
               static_cast<std::uint32_t>(count(one, "--head-dim", 1, kMaxHeadDim)), "--head-dim",
               one);
  }
  if (!c.dtypes.empty()) {
    options.dtypes.clear();
    for (const std::string& one : list_of(c.dtypes, "--dtype"))
      add_once(options.dtypes, parse_dtype(one), "--dtype", one);
  }
}

void write(const CalibrateCommand& c, const std::string& text) {
  read_machine(text, c.output);  // what is written can be read
  write_text(text, c.output);
}

MeasuredLinks measured_links(World& world, Control& control, Watchdog& watchdog) {
  const auto measured = [&](LinkPattern pattern, const LinkBenchOptions& o) {
    return measure_links(world, control, pattern, o, [&](std::int64_t bytes) {
      watchdog.waits(fmt::format("measuring messages of {} bytes", bytes));
    });
  };
  MeasuredLinks out;
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

// Called with what is measured and how much of all is done.
using MeasureProgress = std::function<void(const std::string&, double)>;

CpuFigures measured_cpu(const CalibrationOptions& options, const MeasureProgress& progress) {
  const CpuFigures figures = measure_cpu(options, progress);
  progress("", 1);
  return figures;
}

void write(const CalibrateCommand& c, const CpuFigures& figures, const MeasuredLinks& links) {
  summary(figures);
  if (links.processes > 1)
    fmt::print("between processes, by {}: {} GB/s, a message {} us and more\n", links.transport,
               figure(links.gb_per_s), figure(links.latency_us));
  std::fflush(stdout);  // before a file that cannot be written ends it
  write(c, profile(figures, links, c.name.empty() ? "this-cpu" : c.name));
}

// In several processes: each measures its share of the cores, and then all their links.
void run_together(const CalibrateCommand& c, const Launch& launch, CalibrationOptions options,
                  std::chrono::seconds deadline, const MeasureProgress& progress) {
  Control control;
  const Interruptible interruptible(control);
  End end(control, launch);
  Watchdog watchdog(control, end, deadline);
  watchdog.waits("looking for the other processes");
  const std::unique_ptr<World> world = world_of(c.join, launch, deadline, control);
  end.finally([&](const std::string& why) { world->last_words({why, {}, false}); });
  try {
    // At the same time, as in a run.
    if (options.cores == 0) options.cores = std::max(1u, usable_cores() / processes_here(*world));
    watchdog.works("measuring its cores");
    const MeasureProgress silent = [](const std::string&, double) {};
    const CpuFigures figures = measured_cpu(options, world->rank() == 0 ? progress : silent);
    const MeasuredLinks links = measured_links(*world, control, watchdog);
    if (world->rank() == 0) {
      write(c, figures, links);
      fmt::print("\nprofile    {}\n", c.output);
    }
    watchdog.waits("taking leave of the other processes");
    world->leave();
  } catch (...) {
    give_up(*world, control, end);
  }
  end.finally({});
}

void run_cuda(const CalibrateCommand& c, const MeasureProgress& progress) {
  CudaCalibration options;
  options.workers = static_cast<std::uint32_t>(count(c.workers, "--workers", 1, 64));
  apply(c, options.most_tokens, options);
  if (!c.heads.empty())
    options.heads = static_cast<std::uint32_t>(count(c.heads, "--heads", 1, kMaxHeads));
  if (!c.kv_heads.empty())
    options.kv_heads = static_cast<std::uint32_t>(count(c.kv_heads, "--kv-heads", 1, kMaxHeads));
  if (options.heads % options.kv_heads != 0)
    fail("--heads {} is no multiple of --kv-heads {}", options.heads, options.kv_heads);
  for (const std::uint32_t dim : options.head_dims)
    if (dim > 256) fail("--head-dim is {}, allowed on a GPU are 1 to 256", dim);
  const auto measure = reinterpret_cast<MeasureCuda>(cuda_function("ringsched_measure_cuda"));
  CudaFigures figures;
  measure(options, progress, figures);
  progress("", 1);
  summary(figures);
  write(c, profile(figures, c.name.empty() ? "this-gpu" : c.name));
}

void run(const CalibrateCommand& c) {
  const bool cuda = c.backend == "cuda";
  if (c.backend != "cpu" && !cuda) fail("--backend is '{}', allowed are cpu and cuda", c.backend);
  if (!c.output.ends_with(".toml"))
    fail("--output {}: a profile is a file that ends in .toml", c.output);
  check_output(c.output, "--output");
  CalibrationOptions options;
  options.cores = static_cast<unsigned>(count(c.cores, "--cores", 0, usable_cores()));
  if (cuda && options.cores > 0) fail("--cores is for --backend cpu");
  if (c.passes != "forward" && c.passes != "both")
    fail("--pass is '{}', allowed are forward and both", c.passes);
  if (cuda && c.passes != "both") fail("--pass is for --backend cpu");
  options.backward = c.passes == "both";
  if (!c.take.empty() && c.take != "mean" && c.take != "fastest")
    fail("--take is '{}', allowed are mean and fastest", c.take);
  if (cuda && !c.take.empty()) fail("--take is for --backend cpu");
  options.fastest = c.take == "fastest";
  if (!cuda && c.workers != "1") fail("--workers is for --backend cuda");
  if (!cuda && !(c.heads.empty() && c.kv_heads.empty()))
    fail("--heads and --kv-heads are for --backend cuda");
  c.join.check();
  const std::chrono::seconds deadline{count(c.deadline, "--deadline", 1, 1'000'000)};
  const Launch launch = launched_by(c.join.launch);
  c.join.refuse_alone(launch);
  if (cuda && launch.size > 1)
    fail("--backend cuda is calibrated by one process, and {} were started", launch.size);
  const bool watched = isatty(STDERR_FILENO) != 0;
  const MeasureProgress progress = [&](const std::string& what, double done) {
    if (!watched) return;
    if (done < 1)
      std::fprintf(stderr, "\r\033[K%3.0f %%  %s", 100 * done, what.c_str());
    else
      std::fprintf(stderr, "\r\033[K");
  };
  if (!cuda) {
    apply(c, options.most_tokens, options);
    if (launch.size > 1) return run_together(c, launch, options, deadline, progress);
    write(c, measured_cpu(options, progress), {});
  } else {
    run_cuda(c, progress);
  }
  fmt::print("\nprofile    {}\n", c.output);
}

}  // namespace

void add_calibrate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("calibrate", "Measure this machine, for predictions");
  auto command = std::make_shared<CalibrateCommand>();
  app->add_option("-o,--output", command->output, "write the profile here: .toml")
      ->required()
      ->type_name("FILE");
  app->add_option("--backend", command->backend, "what to measure: cpu, or cuda: a GPU (cpu)")
      ->type_name("NAME");
  app->add_option("--name", command->name, "of the profile (this-cpu, this-gpu)")
      ->type_name("NAME");
  app->add_option("--cores", command->cores, "cpu: so many at work; 0: all (0)")->type_name("N");
  app->add_option("--workers", command->workers,
                  "cuda: so many share the GPU, each with a part of\nit if it can be parted (1)")
      ->type_name("N");
  app->add_option("--heads", command->heads, "cuda: query heads (32)")->type_name("N");
  app->add_option("--kv-heads", command->kv_heads, "cuda: key and value heads (8)")->type_name("N");
  app->add_option("--head-dim", command->head_dims, "separated by commas (64,128)")
      ->type_name("LIST");
  app->add_option("--dtype", command->dtypes,
                  "separated by commas (fp32,bf16,fp16; cuda:\nbf16,fp16)")
      ->type_name("LIST");
  app->add_option("--pass", command->passes, "cpu: forward, or both (both)")->type_name("NAME");
  app->add_option("--take", command->take,
                  "cpu: of the times of each thing: mean, or fastest,\nwhere the machine has "
                  "others to serve (mean)")
      ->type_name("NAME");
  app->add_option("--most-tokens", command->most, "of the largest tile (4K; cuda: 16K)")
      ->type_name("N");
  command->join.add_to(*app, false);
  app->add_option("--deadline", command->deadline, "seconds to wait for other processes (600)")
      ->type_name("SECONDS");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
