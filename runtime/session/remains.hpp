// What is left of a run that does not come to its end: its times so far, from all processes that
// can still tell them, and which are gone.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

class Remains {
 public:
  // `timeline`: the file to write; empty: none is wanted. All is kept by reference.
  Remains(World&, const Plan&, const std::string& timeline);

  // From now on a run of it is what is left, until there is another.
  void run_of(const Execution&, Clock::time_point zero);
  // The runs have come to their end: whatever fails now, no times of theirs are incomplete.
  void all_ended();
  // Tells the others. Process 0 writes the timeline and says what became of all.
  void leave(const std::string& why);

 private:
  std::string times(const std::vector<TaskTime>&) const;
  Timeline timeline_so_far(const std::vector<std::optional<World::LastWords>>&,
                           const std::string& why) const;

  World& world_;
  const Plan& plan_;
  const std::string& file_;
  std::mutex guard_;
  const Execution* execution_ = nullptr;
  Clock::time_point zero_;
};

}  // namespace ringsched
