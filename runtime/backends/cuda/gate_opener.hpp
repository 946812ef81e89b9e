// Opens gates on request or after a time limit: a driver or a library may make the submitting
// thread wait for work behind the gates.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "ringsched/runtime/device.hpp"

namespace ringsched::cuda {

class GateOpener {
 public:
  // Longer than submitting takes, and shorter than anybody waits.
  static constexpr std::chrono::nanoseconds kLongestHold = std::chrono::seconds(3);

  explicit GateOpener(std::function<void()> open_gates,
                      std::chrono::nanoseconds hold = kLongestHold);
  ~GateOpener();  // without opening them
  GateOpener(const GateOpener&) = delete;
  GateOpener& operator=(const GateOpener&) = delete;

  Clock::time_point open();      // when they were
  static int opened_by_clock();  // how often, in the life of the process

 private:
  const std::function<void()> open_gates_;
  std::mutex guard_;
  std::condition_variable news_;
  std::optional<Clock::time_point> opened_;
  bool over_ = false;
  std::thread waits_;
};

}  // namespace ringsched::cuda
