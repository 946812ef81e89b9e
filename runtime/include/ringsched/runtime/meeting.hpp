// The processes of one command, from when they find each other to when they part. Every way in
// which `run`, `calibrate` and `bench-links` can end goes through here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "ringsched/runtime/ending.hpp"
#include "ringsched/runtime/join.hpp"

namespace ringsched {

struct Meeting {
  const JoinOptions& join;
  const Launch& launch;
  World& world;
  Control& control;
  Watchdog& watchdog;
  End& end;
  // What must outlive a failure, to say what is left of the work; null: nothing yet.
  std::shared_ptr<void> work;
  bool parted = false;

  bool first() const { return world.rank() == 0; }  // the process that prints
  // Every process says why their common work is impossible, as all of them know, and parts from
  // the others. Returns the exit code, for the body to return.
  int refuse(const std::string& why);
};

// Finds the other processes, calls `body`, which returns the exit code, and takes leave of them.
// Whatever goes wrong ends all processes: with 2 for bad input (Error), else with 3. What `body`
// throws in a process that is alone and has no `work` yet is thrown on. In the end, when the others
// have gone and need not wait for it, the first process calls `report`; what that throws is thrown
// on.
int meet(const JoinOptions&, std::chrono::nanoseconds deadline,
         const std::function<int(Meeting&)>& body, const std::function<void()>& report = {});

}  // namespace ringsched
