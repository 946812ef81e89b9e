// A queue of instants with a number each, in total order: earliest first, and at one instant the
// lowest number first. It is a four-way heap, because it has about as many entries as there are
// lanes and so stays in the nearest caches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ringsched {

struct Event {
  std::int64_t at = 0;
  std::uint64_t number = 0;
  friend bool operator<(const Event& a, const Event& b) {
    return a.at < b.at || (a.at == b.at && a.number < b.number);
  }
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  const Event& first() const { return heap_.front(); }

  void push(Event e) {
    std::size_t at = heap_.size();
    heap_.push_back(e);
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!(e < heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = e;
  }

  void pop() {
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t count = heap_.size();
    if (count == 0) return;
    std::size_t at = 0;
    for (;;) {
      const std::size_t child = 4 * at + 1;
      if (child >= count) break;
      std::size_t least = child;
      for (std::size_t c = child + 1; c < std::min(child + 4, count); ++c)
        if (heap_[c] < heap_[least]) least = c;
      if (!(heap_[least] < last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
  }

 private:
  std::vector<Event> heap_;
};

}  // namespace ringsched
