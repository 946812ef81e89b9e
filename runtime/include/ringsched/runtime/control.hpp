// How a run is stopped. Code that meets a failure reports it here; all other code checks here
// whenever it waits, and gives up. So a run that cannot go on ends, everywhere and soon.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ringsched {

// A run that did not finish: a peer died, time ran out, a number was not finite.
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Control {
 public:
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // The first reason is kept.
  void stop(const std::string& why);
  std::string why() const;
  // The run cannot go on for a reason outside of this process's work. It stops soon, and the
  // message adds what was pending. The first reason is kept, with its exit code.
  void abandon(const std::string& why, int code = 3);
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  std::string abandoned_why() const;
  int abandoned_code() const;
  // For signal handlers: the run stops soon, with what was pending as the reason.
  void interrupt(int signal) { signal_.store(signal); }
  int interrupted() const { return signal_.load(); }

 private:
  std::atomic<bool> stopped_{false}, abandoned_{false};
  std::atomic<int> signal_{0};
  mutable std::mutex guard_;
  std::string why_, abandoned_why_;
  int abandoned_code_ = 0;
};

// Thrown inside a lane to leave it; never seen outside a run.
struct Stopped {};

// Waits on `condition` until `ready()`, and checks `control` now and then. The longer it waits, the
// less often it checks: otherwise a thousand waiting lanes would keep all cores busy. The caller
// holds `lock`. Throws Stopped.
template <class Condition, class Lock, class Ready>
void wait_until(const Control& control, Condition& condition, Lock& lock, Ready ready) {
  constexpr std::chrono::milliseconds longest{160};
  std::chrono::milliseconds look{20};
  while (!ready()) {
    if (control.stopped()) throw Stopped{};
    if (condition.wait_for(lock, look) == std::cv_status::timeout)
      look = std::min(2 * look, longest);
  }
}

}  // namespace ringsched
