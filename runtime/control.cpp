#include "ringsched/runtime/control.hpp"

namespace ringsched {

void Control::stop(const std::string& why) {
  const std::lock_guard lock(guard_);
  if (stopped()) return;
  why_ = why;
  stopped_.store(true, std::memory_order_release);
}

std::string Control::why() const {
  const std::lock_guard lock(guard_);
  return why_;
}

void Control::abandon(const std::string& why, int code) {
  const std::lock_guard lock(guard_);
  if (abandoned()) return;
  abandoned_why_ = why;
  abandoned_code_ = code;
  abandoned_.store(true, std::memory_order_release);
}

std::string Control::abandoned_why() const {
  const std::lock_guard lock(guard_);
  return abandoned_why_;
}

int Control::abandoned_code() const {
  const std::lock_guard lock(guard_);
  return abandoned_code_;
}

}  // namespace ringsched
