// Times of one thing. Either the middle one counts: what it takes here, with whatever else this
// machine and its host do; or the fastest: what it takes when nothing disturbs it. Those during
// which others on the host took processor time count only where there is nothing better. It is
// settled when the middle half of them, or the two fastest, are alike.
#pragma once

#include <algorithm>
#include <vector>

#include "ringsched/runtime/stolen_time.hpp"

namespace ringsched {

class Samples {
 public:
  explicit Samples(bool fastest = false) : fastest_(fastest) {}
  // `measure` returns a time.
  template <class Measure>
  void take(Measure measure) {
    const StolenTime stolen;
    const double time = measure();
    add(time, stolen.share() == 0);
  }
  void add(double time, bool undisturbed) { (undisturbed ? good_ : others_).push_back(time); }

  bool settled() const {
    std::vector<double> times = good_;
    if (times.size() < kFew) return false;
    std::sort(times.begin(), times.end());
    return fastest_ ? times[1] <= kAlike * times[0]
                    : times[3 * times.size() / 4] <= kAlike * times[times.size() / 4];
  }
  double counts() const {
    std::vector<double> times = good_;
    if (times.size() < kFew) times.insert(times.end(), others_.begin(), others_.end());
    std::sort(times.begin(), times.end());
    return times[fastest_ ? 0 : times.size() / 2];
  }

 private:
  static constexpr std::size_t kFew = 3;
  static constexpr double kAlike = 1.05;

  bool fastest_;
  std::vector<double> good_, others_;
};

}  // namespace ringsched
