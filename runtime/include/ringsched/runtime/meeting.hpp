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
  // What must survive a failure, to report what is left of the work; null: nothing yet.
  std::shared_ptr<void> work;
  bool parted = false;

  bool first() const { return world.rank() == 0; }  // the process that prints
  // Every process reports why the common work is impossible, which all of them know, and parts from
  // the others. Returns the exit code, for the body to return.
  int refuse(const std::string& why);
};

// Finds the other processes, calls `body`, which returns the exit code, and parts from them. Any
// failure ends all processes: with 2 for bad input (Error), else with 3. If the process is alone
// and has no `work` yet, the exception of `body` passes through. At the end, once the others have
// left and need not wait, the first process calls `report`, whose exceptions pass through.
int meet(const JoinOptions&, std::chrono::nanoseconds deadline,
         const std::function<int(Meeting&)>& body, const std::function<void()>& report = {});

}  // namespace ringsched
