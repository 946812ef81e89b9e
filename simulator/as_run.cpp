#include "ringsched/simulator/as_run.hpp"

#include <algorithm>

#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

std::string as_run(const std::string& schedule, const SoftwareFigures& software) {
  if (!software.sends_all || schedule.find(":sends=") != schedule.npos) return schedule;
  const Schedule s = find_schedule(schedule);
  const bool has = std::ranges::count(s.parameters, "sends", &Parameter::name) > 0;
  return has ? schedule + ":sends=all" : schedule;
}

}  // namespace ringsched
