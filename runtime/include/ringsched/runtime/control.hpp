// How a run is stopped. Whoever meets a failure says so here; everybody else looks here whenever
// they wait, and gives up. So a run that cannot go on ends, everywhere and soon.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ringsched {

// A run that did not come to its end: a peer died, time ran out, a number was not finite.
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
  // The run cannot go on for a reason that lies outside of this process's work: it is stopped soon,
  // with what was pending beside the reason. The first reason is kept, and the exit code with it.
  void abandon(const std::string& why, int code = 3);
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  std::string abandoned_why() const;
  int abandoned_code() const;
  // For signal handlers: the run is stopped soon, with what was pending as the reason.
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

// Waits on `condition` until `ready()`, looking at `control` now and then: the longer it waits, the
// less often, as a thousand lanes that wait would otherwise keep all cores busy with looking.
// `lock` is held by the caller. Throws Stopped.
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
