// If there are at least as many workers as cores, they take turns on them: one task each, on a core
// of its own. The worker with the most work left goes first; among equals, the first to come.
//
// The system would share the cores too, but by slices of some milliseconds in an order of its own.
// Workers would often wait for one that is half done and has lost its core, find the caches full of
// others' data, or share a core beside an idle one. With turns, all progress evenly, as the machine
// model assumes.
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
  // Allows this many turns at a time. Pins threads if this process has the cores for itself: two
  // processes that pin to the same cores can block each other for seconds.
  CoreGate(unsigned cores, bool alone, const Control&);

  // A worker's place at a gate. It outlives all turns of a run, also those of other workers,
  // because they call it.
  struct Place {
    unsigned last = ~0u;    // the core it had
    bool expected = false;  // it has registered

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
    // Per core, not per worker: it is still in the cache from the task before.
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
