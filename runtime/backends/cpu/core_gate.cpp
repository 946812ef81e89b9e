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
  std::vector<Place*> next;
  place.thread = pthread_self();
  place.called = false;  // only those in the queue are called
  {
    const std::lock_guard lock(guard_);
    if (before) free_.push_back(*before);
    if (place.expected) --expected_;
    place.expected = false;
    queue_.emplace(work_left, &place);
    next = hand_out();
  }
  call(next);
  try {
    std::unique_lock lock(place.guard);
    wait_until(control_, place.news, lock, [&] { return place.called; });
  } catch (const Stopped&) {
    const std::lock_guard lock(guard_);
    std::erase_if(queue_, [&](const auto& waiting) { return waiting.second == &place; });
    throw;
  }
  return place.slot;
}

void CoreGate::leave(unsigned slot) {
  std::vector<Place*> next;
  {
    const std::lock_guard lock(guard_);
    free_.push_back(slot);
    next = hand_out();
  }
  call(next);
}

// Chooses whose turn it is now, for the caller to call. With the gate held.
std::vector<CoreGate::Place*> CoreGate::hand_out() {
  std::vector<Place*> out;
  while (expected_ == 0 && !free_.empty() && !queue_.empty()) {
    Place& next = *queue_.begin()->second;
    queue_.erase(queue_.begin());
    const auto same = std::find(free_.begin(), free_.end(), next.last);
    const auto taken = same != free_.end() ? same : free_.end() - 1;
    next.slot = *taken;
    free_.erase(taken);
    out.push_back(&next);
  }
  return out;
}

// Call this without the gate held. Pinning and waking take longer than everything else, and the
// woken thread would find the gate closed and go to sleep again.
void CoreGate::call(const std::vector<Place*>& next) const {
  for (Place* place : next) {
    // A sleeping thread wakes up there.
    if (place->slot != place->last && !pins_.empty()) pin(place->thread, pins_[place->slot]);
    {
      const std::lock_guard lock(place->guard);
      place->called = true;
    }
    place->news.notify_one();
  }
}

}  // namespace ringsched
