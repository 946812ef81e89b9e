#include "core_gate.hpp"

#include <algorithm>

namespace ringsched {

namespace {

using namespace std::chrono_literals;

// Long against handing over a core (some ten us), short against an attend (some ten ms).
constexpr auto kTurn = 500us;

}  // namespace

void CoreGate::enter() {
  std::unique_lock lock(guard_);
  if (free_ > 0) {
    --free_;
    return;
  }
  Waiting self;
  queue_.push_back(&self);
  crowded_ = true;
  try {
    wait_until(control_, self.news, lock, [&] { return self.called; });
  } catch (...) {
    std::erase(queue_, &self);
    throw;
  }
}

void CoreGate::leave() {
  const std::lock_guard lock(guard_);
  if (queue_.empty()) {
    ++free_;
    return;
  }
  Waiting* const next = queue_.front();
  queue_.pop_front();
  crowded_ = !queue_.empty();
  next->called = true;
  next->news.notify_one();
}

CoreGate::Turn::Turn(CoreGate* gate) : gate_(gate) {
  if (!gate_) return;
  gate_->enter();
  has_ = true;
  since_ = Clock::now();
}

CoreGate::Turn::~Turn() {
  if (has_) gate_->leave();
}

void CoreGate::Turn::pass_on() {
  if (!gate_ || !gate_->crowded_.load(std::memory_order_relaxed)) return;
  if (Clock::now() - since_ < kTurn) return;
  gate_->leave();
  has_ = false;
  gate_->enter();
  has_ = true;
  since_ = Clock::now();
}

}  // namespace ringsched
