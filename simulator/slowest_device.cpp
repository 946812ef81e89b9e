#include "slowest_device.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

namespace ringsched {

double pace_of_slowest(const std::vector<double>& attending, double spread) {
  std::map<double, int, std::greater<>> devices_by_time;
  for (const double time : attending)
    if (time > 0) ++devices_by_time[time];
  if (devices_by_time.empty() || !(spread > 0)) return 1;
  const double longest = devices_by_time.begin()->first;
  // How likely it is that all devices are done by then.
  const auto chance = [&](double pace) {
    double all = 1;
    for (const auto& [time, devices] : devices_by_time) {
      const double deviation = (pace * longest / time - 1) / spread;
      if (deviation > 8) break;  // it is done, and so are those with less to do
      all *= std::pow(0.5 * std::erfc(-deviation / std::numbers::sqrt2), devices);
    }
    return all;
  };
  double low = 1, high = 1 + 8 * spread;
  while (high - low > 1e-9) {
    const double middle = 0.5 * (low + high);
    (chance(middle) < 0.5 ? low : high) = middle;
  }
  return std::round(high * 1e6) / 1e6;  // the same on every machine
}

}  // namespace ringsched
