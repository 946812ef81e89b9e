#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "commands.hpp"
#include "pictures.hpp"
#include "ringsched/runtime/calibrate.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/machine.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct CalibrateCommand {
  std::string backend = "cpu", output, name = "this-cpu", cores = "0", most = "4K";
  std::string dtypes = "fp32,bf16,fp16", head_dims = "64,128";
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

std::string profile(const CpuFigures& f, const std::string& name) {
  const std::string source =
      fmt::format("measured by ringsched calibrate on {:%Y-%m-%d}, all cores at work",
                  fmt::gmtime(std::chrono::system_clock::now()));
  std::string out = fmt::format(
      "# Made by ringsched calibrate; measured anew by the same command.\n"
      "name = \"{}\"\n"
      "summary = \"{} of {}, {}; workers are threads\"\n\n"
      "[devices]\nper_node = 1\nworkers_each = 1024\nconcurrency = {}\nturns = true\n"
      "source = \"the cores that the system gives\"\n\n"
      "[memory]\ngb_per_s = {}\nsource = \"a merge on each core, {}\"\n\n"
      "[launch]\nus = {}\nsource = \"from task to task, {}\"\n\n",
      escaped(name), counted(f.cores, "core"), escaped(cpu_model()), f.instructions, f.cores,
      figure(f.memory_gb_per_s), source, figure(f.task_us), source);
  out += fmt::format("[communication]\ncores = 1\nsource = \"the receiving thread copies\"\n\n");
  out += fmt::format(
      "[fabric]\nkind = \"memory\"\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
      "source = \"copies on all cores; messages between two threads, {}\"\n\n",
      figure(f.copy_gb_per_s), figure(f.latency_us),
      list(f.messages,
           [](const MeasuredMessage& m) {
             return fmt::format("[{}, {}]", m.bytes, figure(m.gb_per_s));
           }),
      source);
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
  options.dtypes.clear();
  for (const std::string& name : list_of(c.dtypes, "--dtypes"))
    options.dtypes.push_back(parse_dtype(name));
  options.head_dims.clear();
  for (const std::string& text : list_of(c.head_dims, "--head-dims")) {
    const std::int64_t dim = parse_count(text, "--head-dims");
    if (dim < 1 || dim > 256) fail("--head-dims has {}, allowed are 1 to 256", text);
    options.head_dims.push_back(static_cast<std::uint32_t>(dim));
  }
  const bool watched = isatty(STDERR_FILENO) != 0;
  const CpuFigures figures = measure_cpu(options, [&](const std::string& what, double done) {
    if (watched) std::fprintf(stderr, "\r\033[K%3.0f %%  %s", 100 * done, what.c_str());
  });
  if (watched) std::fprintf(stderr, "\r\033[K");
  const std::string text = profile(figures, c.name);
  read_machine(text, c.output);  // what is written can be read
  write_text(text, c.output);
  summary(figures);
  fmt::print("\nprofile    {}\n", c.output);
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
  app->add_option("--dtypes", command->dtypes, "which to measure (fp32,bf16,fp16)")
      ->type_name("LIST");
  app->add_option("--head-dims", command->head_dims, "which to measure (64,128)")
      ->type_name("LIST");
  app->add_option("--most-tokens", command->most, "of the largest tile (4K)")->type_name("N");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
