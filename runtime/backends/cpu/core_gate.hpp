// Workers that are as many as the cores or more take turns on them, a task each, and each turn is
// on a core of its own. The one with most left to do goes first; among equals, the first to come.
// The system would share the cores as well, but by slices of some milliseconds and with an order of
// its own: workers would often wait for one that has done half of its work and has no core now,
// find the caches full of what others do, or be two on one core beside an idle one. So all progress
// evenly, as the machine model has it.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "ringsched/runtime/control.hpp"

namespace ringsched {

class CoreGate {
 public:
  // So many turns at a time. Pins where this process has the cores for itself: two that pin to
  // the same ones keep each other waiting for seconds, however the system shares.
  CoreGate(unsigned cores, bool alone, const Control&);

  // What a worker has of a gate. It outlives all turns of a run, others' as well: they call it.
  struct Place {
    unsigned last = ~0u;    // the core it had
    bool expected = false;  // it has said that it comes

    pthread_t thread{};
    unsigned slot = 0;  // its next core, once it is called
    std::mutex guard;
    std::condition_variable news;
    bool called = false;  // guarded
  };
  // Before the run starts, no task may take a core until all workers have registered, so that the
  // order of arrival does not decide which task goes first.
  void expect(Place&);

  // A worker's turns, one after the other.
  class Turn {
   public:
    Turn(CoreGate& gate, Place& place) : gate_(gate), place_(place) {}
    ~Turn() { give_back(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Waits for a core: that of `place` if it is free. A worker that still has its last turn gives
    // it back first, and gets another at once if it has the most work left. Throws Stopped.
    void take(std::int64_t work_left);
    void give_back();
    // Of the core, not of the worker: it is still in the cache from the task before.
    cpu::Scratch& scratch() { return gate_.scratch_[*slot_]; }

   private:
    CoreGate& gate_;
    Place& place_;
    std::optional<unsigned> slot_;
  };

 private:
  unsigned enter(std::int64_t work_left, Place&, std::optional<unsigned> before);
  std::vector<Place*> hand_out();
  void call(const std::vector<Place*>&) const;
  void leave(unsigned slot);

  std::mutex guard_;
  std::vector<unsigned> free_;
  // By work left, most first. Equals stay in the order in which they came.
  std::multimap<std::int64_t, Place*, std::greater<>> queue_;
  unsigned expected_ = 0;
  std::vector<cpu::Scratch> scratch_;
  const std::vector<int> pins_;  // the core of each turn; empty: they are not pinned
  const Control& control_;
};

}  // namespace ringsched
