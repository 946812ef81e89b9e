// Times of one thing. The second fastest counts, since what else the machine or its host does for a
// while only adds to some of them; and those during which others on the host took processor time
// count only where there is nothing better. It is settled when the two fastest are alike: what
// disturbs does not do so by the same amount twice.
#pragma once

#include <algorithm>
#include <vector>

#include "ringsched/runtime/stolen_time.hpp"

namespace ringsched {

class Samples {
 public:
  // `measure` returns a time.
  template <class Measure>
  void take(Measure measure) {
    const StolenTime stolen;
    const double time = measure();
    add(time, stolen.share() == 0);
  }
  void add(double time, bool undisturbed) { (undisturbed ? good_ : others_).push_back(time); }

  bool settled() const {
    return good_.size() >= 2 && typical() <= kAlike * *std::min_element(good_.begin(), good_.end());
  }
  double typical() const {
    std::vector<double> times = good_;
    if (times.size() < 2) times.insert(times.end(), others_.begin(), others_.end());
    const auto second = times.begin() + (times.size() > 1);
    std::nth_element(times.begin(), second, times.end());
    return *second;
  }

  static constexpr double kAlike = 1.03;

 private:
  std::vector<double> good_, others_;
};

}  // namespace ringsched
