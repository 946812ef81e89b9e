#include "calibrate_profile.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      const std::size_t at = line.find(':');
      if (at != line.npos && at + 2 < line.size()) return printable(line.substr(at + 2), 60);
    }
  return "CPU";
}

template <class T, class F>
std::string list(const std::vector<T>& all, F text) {
  std::string out;
  for (const T& x : all) out += (out.empty() ? "" : ", ") + text(x);
  return "[" + out + "]";
}

// The number that `text` shows: what is written is no more exact than what was measured.
double shown(const std::string& text) { return std::strtod(text.c_str(), nullptr); }
double rounded(double x) { return shown(figure(x)); }

std::vector<MessageRate> rates(const std::vector<MeasuredMessage>& all) {
  std::vector<MessageRate> out;
  for (const MeasuredMessage& m : all)
    out.push_back({static_cast<double>(m.bytes), rounded(m.gb_per_s)});
  return out;
}

std::string messages(const std::vector<MeasuredMessage>& all) {
  return list(all, [](const MeasuredMessage& m) {
    return fmt::format("[{}, {}]", m.bytes, figure(m.gb_per_s));
  });
}

std::string measured_on(const std::string& how) {
  return fmt::format("measured by ringsched calibrate on {:%Y-%m-%d}, {}",
                     fmt::gmtime(std::chrono::system_clock::now()), how);
}

std::vector<KernelTable> kernels(const std::vector<MeasuredKernel>& measured,
                                 const std::string& source, double faster = 1) {
  std::vector<KernelTable> out;
  for (const MeasuredKernel& k : measured) {
    KernelTable t;
    t.backward = k.backward;
    t.shape = k.causal ? TileShape::Causal : TileShape::Full;
    t.dtypes = {k.dtype};
    t.head_dim = k.head_dim;
    t.tokens.assign(k.tokens.begin(), k.tokens.end());
    for (const double x : k.tflops) t.tflops.push_back(rounded(faster * x));
    t.source = source;
    out.push_back(std::move(t));
  }
  return out;
}

// What both kinds of figures have.
template <class Figures>
void add_software(Machine& m, const Figures& f, const std::string& source) {
  m.software.merge_bytes = rounded(f.merge_bytes);
  m.software.reduce_bytes = rounded(f.reduce_bytes);
  m.software.prepare_bytes = rounded(f.prepare_bytes);
  m.software.output_bytes = 0;
  m.software.source = "times of those tasks at the rate above, " + source;
}

template <class Figures>
void add_fabric(Machine& m, const Figures& f, std::string source) {
  m.fabric.kind = Fabric::Memory;
  m.fabric.link = {rounded(f.copy_gb_per_s), rounded(f.latency_us), rates(f.messages)};
  m.fabric.source = std::move(source);
}

void add_noise(Machine& m, double noise, const std::string& source) {
  if (noise <= 0) return;
  m.noise = std::min(shown(fmt::format("{:.2g}", noise)), kMostNoise);
  m.noise_source =
      fmt::format("how much the times of cores differ{}, {}",
                  noise > kMostNoise ? fmt::format(" (cut, from {:.2g})", noise) : "", source);
}

void add_network(Machine& m, const MeasuredLinks& links, const std::string& source) {
  m.nodes = links.processes;
  if (links.processes == 1) return;
  m.network.nics = 1;
  m.network.link = {rounded(links.gb_per_s), rounded(links.latency_us), rates(links.messages)};
  m.network.source = fmt::format("one message between the first and the last process, by {}, {}",
                                 links.transport, source);
}

// cuDNN's part of the kernels, for comparison; predictions are made from whole tasks.
std::vector<std::string> bare_kernels(const CudaFigures& f) {
  std::vector<std::string> out;
  for (const MeasuredKernel& k : f.bare)
    out.push_back(fmt::format(
        "cuDNN alone: {} {} {} x {}: tokens {}, TFLOP/s {}", k.backward ? "backward" : "forward",
        k.causal ? "causal" : "full", to_text(k.dtype), k.head_dim,
        list(k.tokens, [](std::int64_t n) { return std::to_string(n); }), list(k.tflops, figure)));
  return out;
}

std::vector<std::string> remarks(const CudaFigures& f) {
  std::vector<std::string> out = {
      fmt::format("{}, {}{}; {}", printable(f.driver, 60), printable(f.library, 80),
                  f.clocks.empty() ? "" : "; clocks seen " + printable(f.clocks, 160),
                  printable(f.remarks, 300)),
      "One message with nothing beside it, [bytes, GB/s]: " + messages(f.idle_messages),
      fmt::format(
          "Under load (attends that follow each other without a pause for 0.6 s) the largest "
          "full tile takes {} times as long",
          figure(f.under_load))};
  for (std::string& bare : bare_kernels(f)) out.push_back(std::move(bare));
  return out;
}

std::string who_shares(const CudaFigures& f) {
  if (f.workers == 1) return "one worker has the GPU";
  if (f.shared.empty()) return "partitions of the GPU, one for each worker";
  return "workers share the GPU: " + printable(f.shared, 120);
}

}  // namespace

std::string figure(double x) { return fmt::format("{:.4g}", x); }

std::string unsettled(const CpuFigures& f, const MeasuredLinks& links) {
  const std::size_t disturbed = f.disturbed + links.disturbed;
  if (disturbed == 0) return "";
  return fmt::format("{} of {} points did not settle", disturbed, f.points + links.points);
}

// The rates are those of one core alone: with the machine's slowdown they give the times measured
// with all cores busy.
std::string profile(const CpuFigures& f, const MeasuredLinks& links, ProfileNotes notes) {
  const std::string source =
      measured_on(f.fastest ? "all cores busy, the fastest times" : "all cores busy, mean times");
  const std::string of_one =
      source + (f.slowdown > 1 ? ", divided by the slowdown to give one core alone" : "");
  const std::string doubt = unsettled(f, links);
  Machine m;
  m.name = std::move(notes.name);
  m.made_by = std::move(notes.made_by);
  m.summary = fmt::format(
      "{} of {}, {}; workers are threads{}{}", counted(f.cores, "core"), cpu_model(),
      f.instructions, links.processes > 1 ? fmt::format(" of {} processes", links.processes) : "",
      doubt.empty() ? "" : "; " + doubt);
  m.workers_per_device = 1024;
  m.concurrency = f.cores;
  m.turns = true;
  m.full_slowdown = shown(fmt::format("{:.3f}", f.slowdown));
  m.devices_source = "the cores that the system gives; slowdown: all at work over one alone";
  m.memory_gb_per_s = rounded(f.slowdown * f.memory_gb_per_s);
  m.memory_source = "a merge on each core, " + of_one;
  m.launch_us = rounded(f.task_us);
  m.launch_source = "from task to task, " + source;
  m.comm_cores = 1;
  m.comm_source = "the receiving thread copies";
  add_noise(m, f.noise, source);
  add_fabric(m, f, "copies on all cores; messages between two threads, " + source);
  add_network(m, links, source);
  add_software(m, f, source);
  m.kernels = kernels(f.kernels, of_one, f.slowdown);
  notes.comments.insert(notes.comments.begin(),
                        "Made by ringsched calibrate; measured anew by the same command.");
  return to_toml(m, notes.comments);
}

std::string profile(const CudaFigures& f, ProfileNotes notes) {
  const bool parted = f.workers > 1 && f.shared.empty();
  const std::string source = measured_on(f.workers == 1 ? "one worker on the GPU"
                                                        : "all workers of the GPU at work at once");
  Machine m;
  m.name = std::move(notes.name);
  m.made_by = std::move(notes.made_by);
  m.summary = fmt::format("{}, {} on {} multiprocessors{}", printable(f.name, 60),
                          counted(f.workers, "worker"), f.multiprocessors, parted ? " each" : "");
  m.workers_per_device = m.concurrency = f.workers;
  m.devices_source = who_shares(f);
  m.memory_gb_per_s = rounded(f.memory_gb_per_s);
  m.memory_source = fmt::format(
      "a merge of one worker while the others attend, {}; a kernel that copies moves {} GB/s on "
      "the whole GPU",
      source, figure(f.copy_roof_gb_per_s));
  m.launch_us = rounded(f.launch_us);
  m.launch_source = fmt::format(
      "a kernel that does nothing, with the events that take its times; without them {} us; {}",
      figure(f.launch_without_times_us), source);
  m.comm_slowdown = rounded(f.slowdown);
  m.comm_source = "attention beside messages, " + source;
  m.comm_waits_for_kernel = f.messages_wait;
  add_fabric(m, f,
             fmt::format("messages of all workers at once; one {}, ",
                         f.messages_wait ? "alone, as beside attention it waits for the kernel"
                                         : "beside attention") +
                 source);
  add_software(m, f, source);
  m.software.output_bytes = rounded(f.output_bytes);
  m.software.source += "; output: what a full tile takes longer if its result is made wide";
  m.kernels =
      kernels(f.kernels, source + fmt::format(", {} query and {} key heads", f.heads, f.kv_heads));
  std::vector<std::string> comments = {
      "Made by ringsched calibrate --backend cuda; measured anew by the same command."};
  for (std::string& remark : remarks(f)) comments.push_back(std::move(remark));
  return to_toml(m, comments);
}

}  // namespace ringsched
