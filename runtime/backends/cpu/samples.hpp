// Times of one thing. Either their mean counts, as a run is many of them: what it takes here, with
// whatever else this machine and its host do; or the fastest: what it takes when nothing disturbs
// it. Those during which others on the host took processor time count only where there is nothing
// better. It is settled when the middle half of them, or the two fastest, are alike.
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
    if (fastest_) return times[0];
    double sum = 0;  // one that was interrupted for long says nothing of the others
    for (const double time : times) sum += std::min(time, kMost * times[times.size() / 2]);
    return sum / static_cast<double>(times.size());
  }

 private:
  static constexpr std::size_t kFew = 3;
  static constexpr double kAlike = 1.05, kMost = 2;

  bool fastest_;
  std::vector<double> good_, others_;
};

}  // namespace ringsched
