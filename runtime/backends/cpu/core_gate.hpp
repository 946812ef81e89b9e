// More workers than cores take turns: a worker computes while it has a core, and passes it on after
// a short while if others wait. The system would share the cores as well, but by slices of several
// milliseconds and with an order of its own; so a worker would often wait for another that has done
// half of its work and has no core now. Here all progress evenly, as the machine model has it.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"

namespace ringsched {

class CoreGate {
 public:
  CoreGate(unsigned cores, const Control& control) : free_(cores), control_(control) {}

  // A core, held while this lives.
  class Turn {
   public:
    explicit Turn(CoreGate*);  // waits; none: there is nothing to wait for. Throws Stopped.
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Lets another have it for a while, if this has had it long enough. Throws Stopped.
    void pass_on();

   private:
    CoreGate* const gate_;
    bool has_ = false;
    Clock::time_point since_;
  };

 private:
  struct Waiting {
    std::condition_variable news;
    bool called = false;
  };
  void enter();
  void leave();

  std::mutex guard_;
  unsigned free_;
  std::deque<Waiting*> queue_;
  std::atomic<bool> crowded_{false};  // somebody waits
  const Control& control_;
};

}  // namespace ringsched
