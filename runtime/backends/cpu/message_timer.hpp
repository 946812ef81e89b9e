// Times everything that is not a task: messages between two threads, copies on all cores, and going
// from one task to the next.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <span>
#include <thread>

#include "ringsched/runtime/device.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

inline double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// Of one worker in a ring of some, with the number of heads that calibrate measures with.
Plan bench_plan(std::uint32_t workers, std::int64_t tokens, std::uint32_t dim, Dtype, bool causal,
                Pass);
inline constexpr std::uint32_t kBenchHeads = 8;
TaskId first_of(const Plan&, TaskKind, ValueId makes);

// This many cores compute attention until it goes out of scope.
class Busy {
 public:
  explicit Busy(unsigned cores);  // returns once they compute
  ~Busy();

 private:
  std::atomic<bool> over_{false};
  std::latch begun_{1};
  std::thread thread_;
};

// From when both ends are posted, or a little before, to when both know that it has arrived: the
// median of `rounds`.
double message_seconds(std::span<std::byte> memory, std::int64_t bytes, int rounds);

// Of one byte, when each of the cores copies 16 MiB.
double copy_seconds(unsigned cores);

// Going from task to task: reading the clock twice, and waking the waiting lanes.
double task_seconds();

}  // namespace ringsched
