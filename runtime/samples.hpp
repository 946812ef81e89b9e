// Samples of one time, and the rule for how many are enough, for calibrate and bench-links. We use
// either the mean, because a run is the sum of many tasks and shares the machine with others, or
// the fastest sample, which is the time without disturbance. The samples have settled when their
// middle half, or the two fastest ones, are close together.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ringsched {

class Samples {
 public:
  explicit Samples(bool fastest = false) : fastest_(fastest) {}
  void add(double time) {
    times_.insert(std::upper_bound(times_.begin(), times_.end(), time), time);
  }

  int size() const { return static_cast<int>(times_.size()); }
  bool settled() const {
    if (times_.size() < 3) return false;
    return fastest_ ? times_[1] <= kAlike * times_[0]
                    : times_[3 * times_.size() / 4] <= kAlike * times_[times_.size() / 4];
  }
  double counts() const {
    if (fastest_) return times_[0];
    double sum = 0;  // a sample interrupted for long tells nothing about the others
    for (const double time : times_) sum += std::min(time, kMost * times_[times_.size() / 2]);
    return sum / static_cast<double>(times_.size());
  }

 private:
  static constexpr double kAlike = 1.05, kMost = 2;

  bool fastest_;
  std::vector<double> times_;  // the fastest first
};

struct SettlingRule {
  int least = 5, most = 11;  // samples
  // Seconds that the samples of one time may take together. A single sample is never cut short.
  double timeout = std::numeric_limits<double>::infinity();
};

// Whether another sample is needed, after `spent` seconds of them.
inline bool needs_more(const Samples& samples, double spent, const SettlingRule& rule) {
  if (samples.size() == 0) return true;
  if (samples.size() >= rule.most || spent >= rule.timeout) return false;
  return samples.size() < rule.least || !samples.settled();
}

// How much the times of the cores for one thing differ: their standard deviation, as a share.
class Noise {
 public:
  void add(const std::vector<double>& times) {
    if (times.size() < 2) return;
    const double mean =
        std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    double squares = 0;
    for (const double time : times) squares += std::pow(time / mean - 1, 2);
    squares_ += squares / static_cast<double>(times.size() - 1);
    ++count_;
  }
  double share() const { return count_ > 0 ? std::sqrt(squares_ / count_) : 0; }

 private:
  double squares_ = 0;
  int count_ = 0;
};

}  // namespace ringsched
