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
  // `untimed`: the timeline of the plan, without times. `file`: the timeline to write; empty: none
  // is wanted. All but the first timeline is kept by reference.
  Remains(World&, Timeline untimed, const Plan&, const std::string& file);

  // From now on a run of it is what is left, until there is another.
  void run_of(const Execution&, Clock::time_point zero);
  // The runs have come to their end: whatever fails now, no times of theirs are incomplete.
  void all_ended();
  // Tells the others. Process 0 writes the timeline and says what became of all.
  void leave(const std::string& why, int code);

 private:
  std::string times(const std::vector<TaskTime>&) const;
  Timeline timeline_so_far(const std::vector<std::optional<World::LastWords>>&,
                           const std::string& why) const;

  World& world_;
  const Timeline untimed_;
  const Plan& plan_;
  const std::string& file_;
  std::mutex guard_;
  const Execution* execution_ = nullptr;
  Clock::time_point zero_;
};

}  // namespace ringsched
