#include "ringsched/runtime/stolen_time.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "backends/cpu/cores.hpp"

namespace ringsched {

namespace {

std::string kernel_statistics() {
  std::ifstream file("/proc/stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The line of all processors ("cpu") or of one ("cpu3").
std::optional<ProcessorTimes> times_in(const std::string& line, std::string_view wanted) {
  std::istringstream in{line};
  std::string name;
  // user nice system idle iowait irq softirq steal, as proc(5) has them
  std::array<std::int64_t, 8> ticks{};
  if (!(in >> name) || name != wanted) return {};
  for (std::int64_t& t : ticks)
    if (!(in >> t) || t < 0 || t > INT64_MAX / 8) return {};
  return ProcessorTimes{ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7]};
}

std::optional<ProcessorTimes> processor_times_now() { return processor_times(kernel_statistics()); }

std::chrono::nanoseconds own_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

}  // namespace

std::optional<ProcessorTimes> processor_times(std::string_view text) {
  return times_in(std::string(text.substr(0, text.find('\n'))), "cpu");
}

std::optional<ProcessorTimes> processor_times(std::string_view text,
                                              const std::vector<int>& cores) {
  std::istringstream lines{std::string(text)};
  ProcessorTimes sum;
  std::size_t found = 0;
  for (std::string line; std::getline(lines, line);)
    for (const int core : cores)
      if (const auto t = times_in(line, "cpu" + std::to_string(core))) {
        sum.used += t->used;
        sum.stolen += t->stolen;
        ++found;
      }
  return found > 0 && found == cores.size() ? std::optional(sum) : std::nullopt;
}

StolenTime::StolenTime() : then_(processor_times_now()) {}

double StolenTime::share() const {
  const std::optional<ProcessorTimes> now = processor_times_now();
  if (!then_ || !now) return 0;
  const std::int64_t stolen = std::max<std::int64_t>(0, now->stolen - then_->stolen);
  const std::int64_t wanted = stolen + std::max<std::int64_t>(0, now->used - then_->used);
  return wanted > 0 ? static_cast<double>(stolen) / static_cast<double>(wanted) : 0;
}

OtherPrograms::OtherPrograms()
    : cores_(core_numbers()),
      then_(processor_times(kernel_statistics(), cores_)),
      own_then_(own_time()),
      since_(std::chrono::steady_clock::now()) {}

double OtherPrograms::cores() const {
  using Seconds = std::chrono::duration<double>;
  const auto now = processor_times(kernel_statistics(), cores_);
  const double passed = Seconds(std::chrono::steady_clock::now() - since_).count();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (!then_ || !now || passed <= 0 || ticks <= 0) return 0;
  const double all = static_cast<double>(now->used - then_->used) / ticks;
  const double own = Seconds(own_time() - own_then_).count();
  return std::clamp((all - own) / passed, 0.0, static_cast<double>(cores_.size()));
}

}  // namespace ringsched
