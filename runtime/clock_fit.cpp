#include "clock_fit.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ringsched {

namespace {

// Clocks of computers drift by at most this while one set of questions is asked.
constexpr double kMostDrift = 500e-6;
constexpr std::int64_t kMostTime = std::int64_t{1} << 61;  // 73 years; differences do not overflow
constexpr double kMostCorrection = 1e15;                   // likewise, in picoseconds

}  // namespace

void ClockFit::add(std::int64_t asked, std::int64_t theirs, std::int64_t answered) {
  if (theirs < 0 || theirs > kMostTime)
    throw RunFailed("process 0 sent a time of its clock that cannot be read");
  if (least_ == INT64_MIN) first_ = asked;
  last_ = answered;
  least_ = std::max(least_, theirs - answered);
  most_ = std::min(most_, theirs - asked);
}

// Clocks that drift meanwhile may leave no intersection; then the middle is as good, and the bound
// is their drift.
ClockReading ClockFit::reading() const {
  const std::int64_t offset = least_ + (most_ - least_) / 2;
  const auto drifted =
      static_cast<std::int64_t>(std::ceil(kMostDrift * static_cast<double>(last_ - first_)));
  return {first_ + (last_ - first_) / 2, offset, std::abs(most_ - least_) / 2 + 1 + drifted};
}

std::string name_of_clock() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code none;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/time", none);
  return boot.empty() ? boot : boot + " " + space.string();
}

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// Between the readings we assume a straight line, which continues before and after them.
std::int64_t ClockLine::correction(std::int64_t at) const {
  if (after.at <= before.at) return before.offset;
  const double since = drift() * static_cast<double>(at - before.at);
  return before.offset + std::llround(std::clamp(since, -kMostCorrection, kMostCorrection));
}

double ClockLine::drift() const {
  return after.at <= before.at ? 0
                               : static_cast<double>(after.offset - before.offset) /
                                     static_cast<double>(after.at - before.at);
}

}  // namespace ringsched
