// Sets of time, as sorted intervals that do not touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace ringsched {

class Intervals {
 public:
  // Mostly in the order of their starts; settle() before use if not.
  void add(std::int64_t start, std::int64_t end) {
    if (end <= start) return;
    if (all_.empty() || start > all_.back().end) {
      all_.push_back({start, end});
    } else if (start >= all_.back().start) {
      all_.back().end = std::max(all_.back().end, end);
    } else {
      all_.push_back({start, end});
      sorted_ = false;
    }
  }
  void settle() {
    if (sorted_) return;
    std::vector<Interval> loose = std::move(all_);
    std::sort(loose.begin(), loose.end(),
              [](const Interval& a, const Interval& b) { return a.start < b.start; });
    all_.clear();
    sorted_ = true;
    for (const Interval& i : loose) add(i.start, i.end);
  }
  std::int64_t length() const {
    std::int64_t sum = 0;
    for (const auto& i : all_) sum += i.end - i.start;
    return sum;
  }
  bool empty() const { return all_.empty(); }
  std::int64_t first() const { return all_.empty() ? 0 : all_.front().start; }
  std::int64_t last() const { return all_.empty() ? 0 : all_.back().end; }

  friend Intervals united(const Intervals& a, const Intervals& b) {
    Intervals out;
    auto x = a.all_.begin(), y = b.all_.begin();
    while (x != a.all_.end() || y != b.all_.end()) {
      const bool first = y == b.all_.end() || (x != a.all_.end() && x->start <= y->start);
      const auto& next = first ? *x++ : *y++;
      out.add(next.start, next.end);
    }
    return out;
  }
  friend std::int64_t common_length(const Intervals& a, const Intervals& b) {
    std::int64_t sum = 0;
    auto x = a.all_.begin(), y = b.all_.begin();
    while (x != a.all_.end() && y != b.all_.end()) {
      sum += std::max<std::int64_t>(0, std::min(x->end, y->end) - std::max(x->start, y->start));
      (x->end < y->end ? x : y)++;
    }
    return sum;
  }

 private:
  struct Interval {
    std::int64_t start, end;
  };
  std::vector<Interval> all_;
  bool sorted_ = true;
};

}  // namespace ringsched
