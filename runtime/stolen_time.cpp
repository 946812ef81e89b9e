#include "ringsched/runtime/stolen_time.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>

namespace ringsched {

namespace {

std::optional<ProcessorTimes> processor_times_now() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return processor_times(line);
}

}  // namespace

std::optional<ProcessorTimes> processor_times(std::string_view text) {
  std::istringstream in{std::string(text.substr(0, text.find('\n')))};
  std::string name;
  // user nice system idle iowait irq softirq steal, as proc(5) has them
  std::array<std::int64_t, 8> ticks{};
  if (!(in >> name) || name != "cpu") return {};
  for (std::int64_t& t : ticks)
    if (!(in >> t) || t < 0 || t > INT64_MAX / 8) return {};
  return ProcessorTimes{ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7]};
}

StolenTime::StolenTime() : then_(processor_times_now()) {}

double StolenTime::share() const {
  const std::optional<ProcessorTimes> now = processor_times_now();
  if (!then_ || !now) return 0;
  const std::int64_t stolen = std::max<std::int64_t>(0, now->stolen - then_->stolen);
  const std::int64_t wanted = stolen + std::max<std::int64_t>(0, now->used - then_->used);
  return wanted > 0 ? static_cast<double>(stolen) / static_cast<double>(wanted) : 0;
}

}  // namespace ringsched
