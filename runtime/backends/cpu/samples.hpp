// Times of one thing. The second fastest counts, since what else the machine does for a while only
// adds to some of them; and those during which others on the host took processor time count only
// where there is nothing better.
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

  bool settled() const { return good_.size() >= 2; }
  double typical() const {
    std::vector<double> times = good_;
    if (!settled()) times.insert(times.end(), others_.begin(), others_.end());
    const auto second = times.begin() + (times.size() > 1);
    std::nth_element(times.begin(), second, times.end());
    return *second;
  }

 private:
  std::vector<double> good_, others_;
};

}  // namespace ringsched
