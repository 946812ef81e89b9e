#include "session/kept_runs.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

namespace ringsched {

KeptRuns::KeptRuns(std::int64_t repeats, bool fastest) : repeats_(repeats), fastest_(fastest) {}

void KeptRuns::add(Timeline timeline) {
  const Picoseconds makespan = timeline.makespan();
  const Entry run{makespan, static_cast<std::int64_t>(makespans_.size())};
  makespans_.push_back(makespan);
  by_makespan_.insert(std::upper_bound(by_makespan_.begin(), by_makespan_.end(), run), run);
  kept_.emplace(run, std::move(timeline));
  drop_hopeless();
  drop_one_of_too_many();
}

// A run that is now at place k of r will be at place k to k + (repeats - r) of all.
void KeptRuns::drop_hopeless() {
  const auto r = static_cast<std::int64_t>(by_makespan_.size());
  const std::int64_t wanted = fastest_ ? 0 : repeats_ / 2;
  const std::int64_t first = std::max<std::int64_t>(0, wanted - (repeats_ - r));
  const std::int64_t last = std::min(r - 1, wanted);
  auto from = kept_.lower_bound(by_makespan_[static_cast<std::size_t>(first)]);
  auto to = kept_.upper_bound(by_makespan_[static_cast<std::size_t>(last)]);
  if (from ==
      to) {  // those that could be it were too many: the next on either side are the nearest
    if (from != kept_.begin()) --from;
    if (to != kept_.end()) ++to;
  }
  kept_.erase(kept_.begin(), from);
  kept_.erase(to, kept_.end());
}

// If there are too many, drops the one whose neighbours are nearest to each other. So wherever the
// median will be, some kept run is near it.
void KeptRuns::drop_one_of_too_many() {
  if (kept_.size() <= kMost) return;
  const auto place = [&](const auto& kept) {
    return std::lower_bound(by_makespan_.begin(), by_makespan_.end(), kept->first) -
           by_makespan_.begin();
  };
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  auto drop = kept_.begin();
  for (auto k = std::next(kept_.begin()); std::next(k) != kept_.end(); ++k)
    if (const auto apart = place(std::next(k)) - place(std::prev(k)); apart < least) {
      least = apart;
      drop = k;
    }
  kept_.erase(drop);
}

Timeline KeptRuns::take() {
  if (fastest_) return std::move(kept_.begin()->second);
  const auto distance = [&](const auto& kept) {
    return std::abs(kept.first.first.value - median().value);
  };
  return std::move(std::min_element(kept_.begin(), kept_.end(), [&](const auto& a, const auto& b) {
                     return distance(a) < distance(b);
                   })->second);
}

}  // namespace ringsched
