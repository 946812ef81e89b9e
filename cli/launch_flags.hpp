// The flags that say how processes find each other and what carries their messages.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

struct JoinFlags {
  LaunchFlags launch;
  std::string transport;

  void add_to(CLI::App&);
  // Empty: what is taken depends on who has started the processes. Throws Error where the name is
  // unknown.
  void check() const;
};

// Throws Error where that cannot be, RunFailed where the others are not found within `patience`.
std::unique_ptr<World> world_of(const JoinFlags&, const Launch&, std::chrono::nanoseconds patience,
                                Control&);

// For people: "torchrun's RANK and WORLD_SIZE".
std::string found_by(const Launch&);

}  // namespace ringsched
