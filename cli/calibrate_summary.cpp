#include "calibrate_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "text.hpp"

namespace ringsched {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> named(const MeasuredKernel& k) {
  return {k.backward ? "backward" : "forward", k.causal ? "causal" : "full",
          std::string(to_text(k.dtype)), std::to_string(k.head_dim)};
}

std::string kernel_rows(const CpuFigures& f) {
  Rows rows = {{"pass", "mask", "dtype", "head dim"}};
  const std::vector<std::int64_t>& tokens = f.kernels.front().tokens;
  std::vector<std::size_t> shown = {0};  // the least, one between, the most
  if (tokens.size() > 4) shown.push_back(3);
  if (tokens.size() > 1) shown.push_back(tokens.size() - 1);
  for (const std::size_t i : shown)
    rows[0].push_back(fmt::format("{}{}", tokens[i], i == 0 ? " tokens" : ""));
  for (const MeasuredKernel& k : f.kernels) {
    rows.push_back(named(k));
    for (const std::size_t i : shown) rows.back().push_back(fmt::format("{:.3f}", k.tflops[i]));
  }
  return fmt::format("TFLOP/s per core{}, by tokens:\n{}",
                     f.cores > 1 ? " with all cores busy" : "", table(rows));
}

}  // namespace

std::string summary(const CpuFigures& f, const MeasuredLinks& links) {
  std::string out = fmt::format("{}, {}", counted(f.cores, "core"), f.instructions);
  if (f.cores > 1)
    out += fmt::format("; a task takes {:.3g} times as long with all cores busy as with one",
                       f.slowdown);
  if (f.noise > 0) out += fmt::format("; times vary by {:.0f}%", 100 * f.noise);
  if (f.noise > kMostNoise)
    out += fmt::format(" (the profile says {:.0f}%, the maximum)", 100 * kMostNoise);
  out += fmt::format(
      "\nwith all cores busy: merge {} GB/s per core, copy {} GB/s, message latency at "
      "least {} us\n",
      figure(f.memory_gb_per_s), figure(f.copy_gb_per_s), figure(f.latency_us));
  out += kernel_rows(f);
  if (f.slowdown > 1) out += "the profile stores single-core rates and the slowdown above\n";
  if (const std::string doubt = unsettled(f, links); !doubt.empty())
    out += doubt +
           ": something else is using this machine or its host;\nruns on a quiet machine will be "
           "faster than predicted\n";
  if (links.processes > 1)
    out += fmt::format("between processes, by {}: {} GB/s, message latency at least {} us\n",
                       links.transport, figure(links.gb_per_s), figure(links.latency_us));
  return out;
}

std::string summary(const CudaFigures& f) {
  std::string out = fmt::format("{}, {}, {}; {} on {} multiprocessors{}\n", f.name, f.driver,
                                f.library, counted(f.workers, "worker"), f.multiprocessors,
                                f.workers > 1 && f.shared.empty() ? " each" : "");
  if (!f.shared.empty()) out += fmt::format("they share them: {}\n", f.shared);
  out += fmt::format(
      "{}\nmerging {} GB/s a worker; a copy kernel {} GB/s; messages {} GB/s together, {} us or "
      "more; attention beside them takes {} times as long, and without pauses {} times\n"
      "a task {} us, {} us without its times\n",
      f.remarks, figure(f.memory_gb_per_s), figure(f.copy_roof_gb_per_s), figure(f.copy_gb_per_s),
      figure(f.latency_us), figure(f.slowdown), figure(f.under_load), figure(f.launch_us),
      figure(f.launch_without_times_us));
  Rows rows = {{"TFLOP/s of a worker", "mask", "dtype", "head dim", "least", "1K tokens", "most"}};
  for (const MeasuredKernel& k : f.kernels) {
    rows.push_back(named(k));
    for (const std::size_t i :
         {std::size_t{0}, std::min<std::size_t>(2, k.tflops.size() - 1), k.tflops.size() - 1})
      rows.back().push_back(fmt::format("{:.1f}", k.tflops[i]));
  }
  return out + table(rows);
}

}  // namespace ringsched
