#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "calibrate_profile.hpp"
#include "commands.hpp"
#include "cuda_module.hpp"
#include "pictures.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/machine.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CalibrateCommand {
  std::string backend = "cpu", output, name, cores = "0", workers = "1", heads, kv_heads, most,
              head_dims, dtypes;
};

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

// Flags that both kinds of machine have.
template <class Options>
void apply(const CalibrateCommand& c, std::int64_t most, Options& options) {
  options.most_tokens = c.most.empty() ? most : count(c.most, "--most-tokens", 64, 65536);
  if (!c.head_dims.empty()) {
    options.head_dims.clear();
    for (const std::string& one : list_of(c.head_dims, "--head-dim"))
      options.head_dims.push_back(
          static_cast<std::uint32_t>(count(one, "--head-dim", 1, kMaxHeadDim)));
  }
  if (!c.dtypes.empty()) {
    options.dtypes.clear();
    for (const std::string& one : list_of(c.dtypes, "--dtype"))
      options.dtypes.push_back(parse_dtype(one));
  }
}

void write(const CalibrateCommand& c, const std::string& text) {
  read_machine(text, c.output);  // what is written can be read
  write_text(text, c.output);
}

void run(const CalibrateCommand& c) {
  const bool cuda = c.backend == "cuda";
  if (c.backend != "cpu" && !cuda) fail("--backend is '{}', allowed are cpu and cuda", c.backend);
  if (!c.output.ends_with(".toml"))
    fail("--output {}: a profile is a file that ends in .toml", c.output);
  check_output(c.output, "--output");
  const std::int64_t cores = count(c.cores, "--cores", 0, 4096);
  const std::int64_t workers = count(c.workers, "--workers", 1, 64);
  if (cuda && cores > 0) fail("--cores is for --backend cpu");
  if (!cuda && workers > 1) fail("--workers is for --backend cuda");
  if (!cuda && !(c.heads.empty() && c.kv_heads.empty()))
    fail("--heads and --kv-heads are for --backend cuda");
  const bool watched = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const std::string& what, double done) {
    if (watched) std::fprintf(stderr, "\r\033[K%3.0f %%  %s", 100 * done, what.c_str());
  };
  const std::string name = !c.name.empty() ? c.name : cuda ? "this-gpu" : "this-cpu";
  if (cuda) {
    CudaCalibration options;
    options.workers = static_cast<std::uint32_t>(workers);
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
    if (watched) std::fprintf(stderr, "\r\033[K");
    write(c, profile(figures, name));
    summary(figures);
  } else {
    CalibrationOptions options;
    options.cores = static_cast<unsigned>(cores);
    apply(c, options.most_tokens, options);
    const CpuFigures figures = measure_cpu(options, progress);
    if (watched) std::fprintf(stderr, "\r\033[K");
    write(c, profile(figures, name));
    summary(figures);
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
  app->add_option("--most-tokens", command->most, "of the largest tile (4K; cuda: 16K)")
      ->type_name("N");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
