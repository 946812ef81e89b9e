// More workers than cores take turns, a task each, first come first served. The system would share
// the cores as well, but by slices of some milliseconds and with an order of its own: workers would
// often wait for one that has done half of its work and has no core now, and find the caches full
// of what others do. So all progress evenly, as the machine model has it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "attention.hpp"
#include "ringsched/runtime/control.hpp"

namespace ringsched {

class CoreGate {
 public:
  CoreGate(unsigned cores, const Control&);

  // A core, held while this lives.
  class Turn {
   public:
    explicit Turn(CoreGate&);  // waits. Throws Stopped.
    ~Turn() { gate_.leave(slot_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Of the core, not of the worker: it is still in the cache from the task before.
    cpu::Scratch& scratch() { return gate_.scratch_[slot_]; }

   private:
    CoreGate& gate_;
    const unsigned slot_;
  };

 private:
  struct Waiting {
    std::condition_variable news;
    bool called = false;
    unsigned slot = 0;
  };
  unsigned enter();
  void leave(unsigned slot);

  std::mutex guard_;
  std::vector<unsigned> free_;
  std::deque<Waiting*> queue_;
  std::vector<cpu::Scratch> scratch_;
  const Control& control_;
};

}  // namespace ringsched
