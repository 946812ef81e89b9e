// What is left of a run that does not finish: its times so far, from all processes that can still
// send them, and which processes are gone.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

class Remains {
 public:
  // `untimed`: the timeline of the plan, without times. `file`: the timeline to write; empty: none.
  // Keeps references to everything except the first timeline.
  Remains(World&, Timeline untimed, const Plan&, const std::string& file);

  // From now on, a run of it is what would be left, until the next one.
  void run_of(const Execution&, Clock::time_point zero);
  // The runs have ended: a later failure leaves no incomplete times.
  void all_ended();
  // Tells the others. Process 0 writes the timeline and reports what became of all.
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
