#include "backends/cuda/gate_opener.hpp"

#include <atomic>
#include <utility>

namespace ringsched::cuda {

namespace {

std::atomic<int> by_clock{0};

}  // namespace

GateOpener::GateOpener(std::function<void()> open_gates, std::chrono::nanoseconds hold)
    : open_gates_(std::move(open_gates)), waits_([this, hold] {
        std::unique_lock lock(guard_);
        if (news_.wait_for(lock, hold, [this] { return over_ || opened_; })) return;
        open_gates_();
        opened_ = Clock::now();
        ++by_clock;
      }) {}

GateOpener::~GateOpener() {
  {
    const std::lock_guard lock(guard_);
    over_ = true;
  }
  news_.notify_one();
  waits_.join();
}

Clock::time_point GateOpener::open() {
  const std::lock_guard lock(guard_);
  if (!opened_) {
    open_gates_();
    opened_ = Clock::now();
    news_.notify_one();
  }
  return *opened_;
}

int GateOpener::opened_by_clock() { return by_clock; }

}  // namespace ringsched::cuda
