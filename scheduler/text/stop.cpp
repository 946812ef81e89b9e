#include "ringsched/scheduler/stop.hpp"

namespace ringsched {

namespace {
thread_local const std::atomic<bool>* flag = nullptr;
}

StopWhen::StopWhen(const std::atomic<bool>* now) : before_(flag) { flag = now; }
StopWhen::~StopWhen() { flag = before_; }

const std::atomic<bool>* stop_flag() { return flag; }
void stop_here() {
  if (flag != nullptr && flag->load(std::memory_order_relaxed)) throw Interrupted();
}

}  // namespace ringsched
