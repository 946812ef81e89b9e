#include "core_gate.hpp"

#include <algorithm>

namespace ringsched {

CoreGate::CoreGate(unsigned cores, const Control& control) : scratch_(cores), control_(control) {
  for (unsigned slot = cores; slot-- > 0;) free_.push_back(slot);
}

CoreGate::Turn::Turn(CoreGate& gate) : gate_(gate), slot_(gate.enter()) {}

unsigned CoreGate::enter() {
  std::unique_lock lock(guard_);
  if (!free_.empty()) {
    const unsigned slot = free_.back();
    free_.pop_back();
    return slot;
  }
  Waiting self;
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
  Waiting* const next = queue_.front();
  queue_.pop_front();
  next->called = true;
  next->slot = slot;
  next->news.notify_one();
}

}  // namespace ringsched
