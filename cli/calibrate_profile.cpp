#include "calibrate_profile.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "text.hpp"

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

std::string messages(const std::vector<MeasuredMessage>& all) {
  return list(all, [](const MeasuredMessage& m) {
    return fmt::format("[{}, {}]", m.bytes, figure(m.gb_per_s));
  });
}

std::string measured_on(const std::string& how) {
  return fmt::format("measured by ringsched calibrate on {:%Y-%m-%d}, {}",
                     fmt::gmtime(std::chrono::system_clock::now()), how);
}

// For comparison; predictions are made from whole tasks.
std::string bare_kernels(const CudaFigures& f) {
  std::string out;
  for (const MeasuredKernel& k : f.bare)
    out += fmt::format("# cuDNN alone: {} {} {} x {}: tokens {}, TFLOP/s {}\n",
                       k.backward ? "backward" : "forward", k.causal ? "causal" : "full",
                       to_text(k.dtype), k.head_dim,
                       list(k.tokens, [](std::int64_t n) { return std::to_string(n); }),
                       list(k.tflops, figure));
  return out;
}

std::string kernels(const std::vector<MeasuredKernel>& measured, const std::string& source,
                    double faster = 1) {
  std::string out;
  for (const MeasuredKernel& k : measured)
    out += fmt::format(
        "\n[[kernel]]\npass = \"{}\"\nmask = \"{}\"\ndtypes = [\"{}\"]\nhead_dim = {}\ntokens = "
        "{}\n"
        "tflops = {}\nsource = \"{}\"\n",
        k.backward ? "backward" : "forward", k.causal ? "causal" : "full", to_text(k.dtype),
        k.head_dim, list(k.tokens, [](std::int64_t n) { return std::to_string(n); }),
        list(k.tflops, [&](double x) { return figure(faster * x); }), source);
  return out;
}

}  // namespace

std::string how_many_disturbed(const CpuFigures& f) {
  return fmt::format("{} of {} times", f.disturbed, f.points);
}

std::string figure(double x) { return fmt::format("{:.4g}", x); }

std::string profile(const CpuFigures& f, const MeasuredLinks& links, const std::string& name) {
  const std::string source = measured_on(f.fastest ? "all cores at work, the fastest times"
                                                   : "all cores at work, mean times");
  const std::string of_one =
      source + (f.slowdown > 1 ? ", and faster by the slowdown, as one alone" : "");
  // The figures are of a core that is alone, and the slowdown makes of them what was measured.
  std::string out = fmt::format(
      "# Made by ringsched calibrate; measured anew by the same command.\n"
      "name = \"{}\"\n"
      "summary = \"{} of {}, {}; workers are threads{}{}\"\n\n"
      "[devices]\nnodes = {}\nper_node = 1\nworkers_each = 1024\nconcurrency = {}\nturns = "
      "true\nslowdown = {:.3f}\n"
      "source = \"the cores that the system gives; slowdown: all at work over one alone\"\n\n"
      "[memory]\ngb_per_s = {}\nsource = \"a merge on each core, {}\"\n\n"
      "[launch]\nus = {}\nsource = \"from task to task, {}\"\n\n",
      escaped(name), counted(f.cores, "core"), escaped(cpu_model()), f.instructions,
      links.processes > 1 ? fmt::format(" of {} processes", links.processes) : "",
      f.disturbed > 0 ? fmt::format("; {} did not settle", how_many_disturbed(f)) : "",
      links.processes, f.cores, f.slowdown, figure(f.slowdown * f.memory_gb_per_s), of_one,
      figure(f.task_us), source);
  if (f.noise > 0)
    out += fmt::format(
        "[noise]\nshare = {:.2g}\nsource = \"what cores differ by at a time{}, {}\"\n\n",
        std::min(f.noise, kMostNoise),
        f.noise > kMostNoise ? fmt::format(" (cut, from {:.2g})", f.noise) : "", source);
  out += "[communication]\ncores = 1\nsource = \"the receiving thread copies\"\n\n";
  out += fmt::format(
      "[fabric]\nkind = \"memory\"\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
      "source = \"copies on all cores; messages between two threads, {}\"\n\n",
      figure(f.copy_gb_per_s), figure(f.latency_us), messages(f.messages), source);
  if (links.processes > 1)
    out += fmt::format(
        "[network]\nnics = 1\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
        "source = \"one message between the first and the last process, by {}, {}\"\n\n",
        figure(links.gb_per_s), figure(links.latency_us), messages(links.messages), links.transport,
        source);
  out += fmt::format(
      "[software]\nmerge_bytes = {}\nreduce_bytes = {}\nprepare_bytes = {}\noutput_bytes = 0\n"
      "source = \"times of those tasks at the rate above, {}\"\n",
      figure(f.merge_bytes), figure(f.reduce_bytes), figure(f.prepare_bytes), source);
  out += kernels(f.kernels, of_one, f.slowdown);
  return out;
}

std::string profile(const CudaFigures& f, const std::string& name) {
  const bool parted = f.workers > 1 && f.shared.empty();
  const std::string source = measured_on(f.workers == 1 ? "one worker on the GPU"
                                                        : "all workers of the GPU at work at once");
  std::string out = fmt::format(
      "# Made by ringsched calibrate --backend cuda; measured anew by the same command.\n"
      "# {}, {}{}; {}\n"
      "name = \"{}\"\n"
      "summary = \"{}, {} on {} multiprocessors{}\"\n\n"
      "[devices]\nper_node = 1\nworkers_each = {}\nconcurrency = {}\n"
      "source = \"{}\"\n\n",
      printable(f.driver, 60), printable(f.library, 80),
      f.clocks.empty() ? "" : "; clocks seen " + printable(f.clocks, 160),
      printable(f.remarks, 300), escaped(name), escaped(printable(f.name, 60)),
      counted(f.workers, "worker"), f.multiprocessors, parted ? " each" : "", f.workers, f.workers,
      parted           ? "partitions of the GPU, one for each worker"
      : f.workers == 1 ? "one worker has the GPU"
                       : escaped("workers share the GPU: " + printable(f.shared, 120)));
  out += fmt::format(
      "[memory]\ngb_per_s = {}\n"
      "source = \"a merge of one worker, {}; a kernel that copies moves {} GB/s on the whole "
      "GPU\"\n\n"
      "[launch]\nus = {}\nsource = \"a kernel that does nothing, with the events that take its "
      "times; without them {} us; {}\"\n\n"
      "[communication]\nslowdown = {}\nsource = \"attention beside messages, {}\"\n\n",
      figure(f.memory_gb_per_s), source, figure(f.copy_roof_gb_per_s), figure(f.launch_us),
      figure(f.launch_without_times_us), source, figure(f.slowdown), source);
  out += fmt::format(
      "[fabric]\nkind = \"memory\"\ngb_per_s = {}\nlatency_us = {}\nmessages = {}\n"
      "# one with nothing beside it: {}\n# likewise, not by a copy engine: {}\n"
      "# all at once, not by copy engines: {} GB/s\n"
      "source = \"messages of all workers at once; one beside attention, {}\"\n\n",
      figure(f.copy_gb_per_s), figure(f.latency_us), messages(f.messages),
      messages(f.idle_messages), messages(f.kernel_messages), figure(f.kernel_copy_gb_per_s),
      source);
  out += fmt::format(
      "[software]\nmerge_bytes = {}\nreduce_bytes = {}\nprepare_bytes = {}\noutput_bytes = 0\n"
      "source = \"times of those tasks at the rate above, {}\"\n",
      figure(f.merge_bytes), figure(f.reduce_bytes), figure(f.prepare_bytes), source);
  out +=
      kernels(f.kernels, source + fmt::format(", {} query and {} key heads", f.heads, f.kv_heads));
  return out + (f.bare.empty() ? "" : "\n") + bare_kernels(f);
}

}  // namespace ringsched
