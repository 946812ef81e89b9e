#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "calibrate_profile.hpp"
#include "calibrate_run.hpp"
#include "calibrate_summary.hpp"
#include "commands.hpp"
#include "launch_flags.hpp"
#include "pictures.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/modules.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CalibrateCommand {
  JoinFlags join;
  std::string deadline = "600";
  std::string backend = "cpu", output, name, cores = "0", workers = "1", heads, kv_heads, most,
              head_dims, dtypes, passes = "both", take, timeout;
  bool thorough = false;
};

double seconds(const std::string& text, const char* flag) {
  double s = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, s);
  if (error != std::errc() || end != last || !(s >= 0.001 && s <= 3600))
    fail("{} is '{}'; use 0.001 to 3600 seconds", flag, text);
  return s;
}

// A thing measured twice would be twice in the profile, which is then refused.
template <class T>
void add_once(std::vector<T>& all, T one, const char* flag, const std::string& given) {
  if (std::find(all.begin(), all.end(), one) != all.end()) fail("{} lists {} twice", flag, given);
  all.push_back(one);
}

// Flags that both kinds of machine have.
template <class Options>
void apply(const CalibrateCommand& c, Options& options) {
  if (!c.most.empty()) options.max_tokens = number_of(c.most, "--max-tokens", 64, 65536);
  if (!c.head_dims.empty()) {
    options.head_dims.clear();
    for (const std::string& one : list_of(c.head_dims, "--head-dim"))
      add_once(options.head_dims,
               static_cast<std::uint32_t>(number_of(one, "--head-dim", 1, kMaxHeadDim)),
               "--head-dim", one);
  }
  if (!c.dtypes.empty()) {
    options.dtypes.clear();
    for (const std::string& one : list_of(c.dtypes, "--dtype"))
      add_once(options.dtypes, parse_dtype(one), "--dtype", one);
  }
}

void refuse_flags_of_the_other_backend(const CalibrateCommand& c) {
  if (c.backend == "cuda") {
    if (c.cores != "0") fail("--cores is only for --backend cpu");
    if (c.passes != "both") fail("--pass is only for --backend cpu");
    if (!c.take.empty()) fail("--take is only for --backend cpu");
    if (!c.timeout.empty()) fail("--timeout is only for --backend cpu");
  } else {
    if (c.workers != "1") fail("--workers is only for --backend cuda");
    if (!c.heads.empty() || !c.kv_heads.empty())
      fail("--heads and --kv-heads are only for --backend cuda");
  }
}

CalibrationOptions cpu_options(const CalibrateCommand& c) {
  CalibrationOptions options;
  if (c.thorough) {
    options.dtypes = {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16};
    options.head_dims = {64, 128};
    options.max_tokens = 4096;
    options.timeout = 20;
    options.enough = 3600;
  }
  apply(c, options);
  options.cores = static_cast<unsigned>(number_of(c.cores, "--cores", 0, usable_cores()));
  check_choice("--pass", c.passes, {"forward", "both"});
  options.backward = c.passes == "both";
  if (!c.take.empty()) check_choice("--take", c.take, {"mean", "fastest"});
  options.fastest = c.take == "fastest";
  if (!c.timeout.empty()) options.timeout = seconds(c.timeout, "--timeout");
  return options;
}

CudaCalibration cuda_options(const CalibrateCommand& c) {
  CudaCalibration options;
  if (c.thorough) {
    options.dtypes = {Dtype::Bf16, Dtype::Fp16};
    options.head_dims = {64, 128};
  }
  apply(c, options);
  options.workers = static_cast<std::uint32_t>(number_of(c.workers, "--workers", 1, 64));
  if (!c.heads.empty())
    options.heads = static_cast<std::uint32_t>(number_of(c.heads, "--heads", 1, kMaxHeads));
  if (!c.kv_heads.empty())
    options.kv_heads =
        static_cast<std::uint32_t>(number_of(c.kv_heads, "--kv-heads", 1, kMaxHeads));
  if (options.heads % options.kv_heads != 0)
    fail("--heads {} is not a multiple of --kv-heads {}", options.heads, options.kv_heads);
  for (const std::uint32_t dim : options.head_dims)
    if (dim > 256) fail("--head-dim is {}; use 1 to 256 on a GPU", dim);
  return options;
}

// The flags that both backends have, all of them, so that a profile says what it covers.
template <class Options>
std::string covers(const Options& o) {
  std::string dtypes, dims;
  for (const Dtype d : o.dtypes) dtypes += (dtypes.empty() ? "" : ",") + std::string(to_text(d));
  for (const std::uint32_t d : o.head_dims) dims += (dims.empty() ? "" : ",") + std::to_string(d);
  return fmt::format("--dtype {} --head-dim {} --max-tokens {}", dtypes, dims, o.max_tokens);
}

void run_cuda(const CalibrateCommand& c, const CudaCalibration& options) {
  const auto measure = reinterpret_cast<MeasureCuda>(cuda_function("ringsched_measure_cuda"));
  CudaFigures figures;
  const bool watched = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const std::string& what, double done) {
    if (watched) std::fprintf(stderr, "\r\033[K%3.0f%%  %s", 100 * done, what.c_str());
  };
  measure(options, progress, figures);
  if (watched) std::fputs("\r\033[K", stderr);
  fmt::print("{}", summary(figures));
  std::fflush(stdout);  // before a file that cannot be written ends it
  const std::string made_by =
      fmt::format("ringsched calibrate --backend cuda --workers {} --heads {} --kv-heads {} {}",
                  options.workers, options.heads, options.kv_heads, covers(options));
  write_text(profile(figures, {c.name.empty() ? "this-gpu" : c.name, made_by}), c.output);
  fmt::print("\nprofile    {}\n", c.output);
}

void run(const CalibrateCommand& c) {
  const bool cuda = c.backend == "cuda";
  check_choice("--backend", c.backend, {"cpu", "cuda"});
  if (!c.output.ends_with(".toml")) fail("--output {}: use a name that ends in .toml", c.output);
  check_output(c.output, "--output");
  if (printable(c.name, c.name.size()) != c.name) fail("--name must be one line of plain text");
  refuse_flags_of_the_other_backend(c);
  c.join.require_valid();
  const std::chrono::seconds deadline{number_of(c.deadline, "--deadline", 1, 1'000'000)};
  const Launch launch = launched_by(c.join.launch);
  c.join.refuse_alone(launch);
  if (cuda && launch.size > 1)
    fail("--backend cuda is calibrated by one process, but {} were started", launch.size);
  if (cuda) return run_cuda(c, cuda_options(c));
  const CalibrationOptions options = cpu_options(c);
  (void)cpu_instructions(Dtype::Bf16);  // refuses an unknown RINGSCHED_CPU
  const std::string made_by = fmt::format("ringsched calibrate {} --pass {}", covers(options),
                                          options.backward ? "both" : "forward");
  calibrate_cpu({options, {c.name.empty() ? "this-cpu" : c.name, made_by}, c.output, deadline},
                c.join);
}

}  // namespace

void add_calibrate_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("calibrate", "Measure this machine and write its profile");
  auto command = std::make_shared<CalibrateCommand>();
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    return app->add_option(name, value, help)->type_name(type);
  };
  flag("-o,--output", command->output, "FILE", "profile to write: .toml")->required();
  app->add_flag(
      "--thorough", command->thorough,
      "measure more (takes minutes): head dimensions 64 and 128\n"
      "--backend cpu: also all dtypes, and blocks of up to 4K tokens, with a limit of 20 s per "
      "block size\n"
      "--backend cuda: also bf16 and fp16");
  flag("--dtype", command->dtypes, "LIST", "dtypes (default bf16,fp32; with --backend cuda: bf16)");
  flag("--head-dim", command->head_dims, "LIST", "head dimensions (default 128)");
  flag("--pass", command->passes, "NAME",
       "passes to measure: forward or both (default both); --backend cpu only, as cuda always "
       "measures both");
  flag("--max-tokens", command->most, "N",
       "largest attention block to measure, in tokens (default 2K; with --backend cuda: "
       "16K)");
  flag("--timeout", command->timeout, "SECONDS",
       "time limit for all samples of one block size (default 2); --backend cpu only");
  flag("--take", command->take, "NAME",
       "which of the measured times counts for each block size: mean, or fastest (better on busy "
       "machines) (default mean); --backend cpu only");
  flag("--cores", command->cores, "N", "CPU cores to use; 0 = all (default 0)");
  flag("--backend", command->backend, "NAME", "hardware to measure: cpu or cuda (default cpu)");
  flag("--workers", command->workers, "N",
       "workers that share the GPU; each gets its own partition of the SMs if the driver and the "
       "GPU allow it (default 1); --backend cuda only");
  flag("--heads", command->heads, "N", "query heads (default 32); --backend cuda only");
  flag("--kv-heads", command->kv_heads, "N", "key/value heads (default 8); --backend cuda only");
  flag("--name", command->name, "NAME", "name of the profile (default this-cpu or this-gpu)");
  command->join.add_to(*app, false);
  flag("--deadline", command->deadline, "SECONDS",
       "time limit for each wait for other processes (default 600)");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
