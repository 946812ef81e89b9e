#include "core_gate.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/cores.hpp"

namespace ringsched {

namespace {

std::vector<int> pins(unsigned turns, bool alone) {
  std::vector<int> cores = core_numbers();
  if (!alone || cores.size() < turns) cores.clear();
  return cores;
}

}  // namespace

CoreGate::CoreGate(unsigned cores, bool alone, const Control& control)
    : scratch_(cores), pins_(pins(cores, alone)), control_(control) {
  for (unsigned slot = cores; slot-- > 0;) free_.push_back(slot);
}

void CoreGate::Turn::take(std::int64_t work_left) {
  slot_ = gate_.enter(work_left, place_, std::exchange(slot_, std::nullopt));
  place_.last = *slot_;
}

void CoreGate::Turn::give_back() {
  if (slot_) gate_.leave(*slot_);
  slot_.reset();
}

void CoreGate::expect(Place& place) {
  const std::lock_guard lock(guard_);
  if (!place.expected) ++expected_;
  place.expected = true;
}

unsigned CoreGate::enter(std::int64_t work_left, Place& place, std::optional<unsigned> before) {
  std::unique_lock lock(guard_);
  if (before) free_.push_back(*before);
  if (place.expected) --expected_;
  place.expected = false;
  Waiting self;
  self.work_left = work_left;
  self.last = place.last;
  queue_.push_back(&self);
  hand_out();
  try {
    wait_until(control_, self.news, lock, [&] { return self.called; });
  } catch (...) {
    std::erase(queue_, &self);
    throw;
  }
  return self.slot;
}

void CoreGate::leave(unsigned slot) {
  const std::lock_guard lock(guard_);
  free_.push_back(slot);
  hand_out();
}

void CoreGate::hand_out() {
  while (expected_ == 0 && !free_.empty() && !queue_.empty()) {
    const auto first = std::max_element(
        queue_.begin(), queue_.end(),
        [](const Waiting* x, const Waiting* y) { return x->work_left < y->work_left; });
    Waiting& next = **first;
    queue_.erase(first);
    const auto same = std::find(free_.begin(), free_.end(), next.last);
    const auto taken = same != free_.end() ? same : free_.end() - 1;
    next.slot = *taken;
    free_.erase(taken);
    // If it sleeps, it wakes up there.
    if (next.slot != next.last && !pins_.empty()) pin(next.thread, pins_[next.slot]);
    next.called = true;
    next.news.notify_one();
  }
}

}  // namespace ringsched
