#include "core_gate.hpp"

#include <algorithm>

#include "backends/cpu/cores.hpp"

namespace ringsched {

CoreGate::CoreGate(unsigned cores, const Control& control)
    : scratch_(cores), cores_(core_numbers()), control_(control) {
  for (unsigned slot = cores; slot-- > 0;) free_.push_back(slot);
}

CoreGate::Turn::Turn(CoreGate& gate, std::int64_t work_left, unsigned& last)
    : gate_(gate), slot_(gate.enter(work_left, last)) {
  last = slot_;
}

void CoreGate::move_to(unsigned slot, pthread_t thread) {
  if (cores_.size() >= scratch_.size()) pin(thread, cores_[slot]);
}

unsigned CoreGate::enter(std::int64_t work_left, unsigned last) {
  std::unique_lock lock(guard_);
  if (!free_.empty()) {
    const auto same = std::find(free_.begin(), free_.end(), last);
    const auto taken = same != free_.end() ? same : free_.end() - 1;
    const unsigned slot = *taken;
    free_.erase(taken);
    if (slot != last) move_to(slot, pthread_self());
    return slot;
  }
  Waiting self;
  self.work_left = work_left;
  queue_.push_back(&self);
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
  if (queue_.empty()) {
    free_.push_back(slot);
    return;
  }
  const auto first = std::max_element(
      queue_.begin(), queue_.end(),
      [](const Waiting* x, const Waiting* y) { return x->work_left < y->work_left; });
  Waiting* const next = *first;
  queue_.erase(first);
  next->called = true;
  next->slot = slot;
  move_to(slot, next->thread);  // while it sleeps: it wakes up there
  next->news.notify_one();
}

}  // namespace ringsched
