#include "ringsched/runtime/meeting.hpp"

namespace ringsched {

int Meeting::refuse(const std::string& why) {
  watchdog.waits("taking leave of the other processes");
  refuse_together(world, end, why);
  parted = true;
  return 2;
}

int meet(const JoinOptions& join, std::chrono::nanoseconds deadline,
         const std::function<int(Meeting&)>& body, const std::function<void()>& report) {
  const Launch launch = launched_by(join.launch);
  Control control;
  const Interruptible interruptible(control);
  End end(control, launch);
  Watchdog watchdog(control, end, deadline);  // outlives the world, whose end may hang
  watchdog.waits("looking for the other processes");
  std::unique_ptr<World> world = world_of(join, launch, deadline, control);
  Meeting meeting{join, launch, *world, control, watchdog, end, nullptr};
  int code = 0;
  try {
    end.finally([&](const std::string& why, int with) {
      world->last_words({why, {}, false, with});
    });
    code = body(meeting);
    watchdog.waits("taking leave of the other processes");
    if (!meeting.parted) world->leave();
  } catch (...) {
    if (world->size() > 1 || meeting.work) give_up(*world, control, end);
    throw;
  }
  end.finally({});
  meeting.work.reset();
  const bool first = meeting.first();
  world.reset();
  watchdog.works("writing");
  if (first && report) report();
  return code;
}

}  // namespace ringsched
