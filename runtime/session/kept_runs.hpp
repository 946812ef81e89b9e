// The timelines of repeated runs, one of which will be reported. It keeps the makespans of all
// runs, but at most fifty timelines, however often the plan runs.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

class KeptRuns {
 public:
  // Enough for every run that can still be the median of 99.
  static constexpr std::size_t kMost = 50;

  // Of `repeats` runs, the fastest or the median is to be reported.
  KeptRuns(std::int64_t repeats, bool fastest);

  void add(Timeline);
  std::size_t kept() const { return kept_.size(); }

  // Of all runs, in the order in which they ran.
  const std::vector<Picoseconds>& makespans() const { return makespans_; }
  Picoseconds median() const { return by_makespan_[by_makespan_.size() / 2].first; }
  // After the last run: the fastest, or the kept run nearest to the median. That is the median run
  // itself if there were at most 99.
  Timeline take();

 private:
  using Entry = std::pair<Picoseconds, std::int64_t>;  // its makespan and number; no two are equal

  void drop_hopeless();
  void drop_one_of_too_many();

  const std::int64_t repeats_;
  const bool fastest_;
  std::vector<Picoseconds> makespans_;
  std::vector<Entry> by_makespan_;  // sorted
  std::map<Entry, Timeline> kept_;
};

}  // namespace ringsched
