// The executor's interface to whatever computes: one worker's share of a device. It has a lane for
// each lane of the plan. A lane runs its entries in order, lanes run side by side, and adding an
// entry does not wait for it. A lane is a stream of a GPU, or a thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Where a task reads and writes, in memory of the device.
struct Operands {
  std::array<const std::byte*, 3> inputs{};
  std::array<std::byte*, 2> outputs{};
};

// In nanoseconds since the run began.
struct TaskTime {
  static constexpr std::int64_t kNotYet = -1;
  std::int64_t start = kNotYet, end = kNotYet;
};

// What a lane is doing, for messages about runs that hang.
struct LaneState {
  TaskId task;             // none: it has ended, or not begun
  std::int64_t since = 0;  // nanoseconds since the run began
  bool for_core = false;   // it waits for its turn on a core
};

using Clock = std::chrono::steady_clock;

class Device {
 public:
  virtual ~Device() = default;

  // The block that holds all tensors of the worker. Called once. Throws RunFailed.
  virtual std::byte* allocate(Bytes) = 0;
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  // Makes an initial tensor in place; false: the caller must upload it.
  virtual bool fill(std::byte* /*to*/, const InitialTensor&) { return false; }
  virtual bool is_host_memory() const { return true; }  // the block can be read without download()

  // What follows on the lane starts once that task of this worker has ended.
  virtual void wait_for(Lane, TaskId) = 0;
  // Take the time, of one task or of all members of a group. The end releases those that wait. If
  // there was no begin, the task takes no time.
  virtual void begin(Lane, std::span<const TaskId>) = 0;
  virtual void end(Lane, std::span<const TaskId>) = 0;
  virtual void compute(TaskId, const Operands&) = 0;  // on the lane of its task
  // Host code, in its turn: it runs on the lane's thread, or, if lanes are streams, when the lane
  // is submitted, so that it can put work on stream(lane).
  virtual void call(Lane, std::function<void()>) = 0;
  virtual void* stream(Lane) { return nullptr; }  // for those that have

  // Once, before the first run: starts the lanes to warm up what is slow at first use. The caller
  // waits for it as for a run. Returns false if the device has no such step.
  virtual bool rehearse() { return false; }
  virtual void rehearsed() {}  // after that
  // How long before `zero` to call start(), so that the run begins then.
  virtual std::chrono::nanoseconds lead() const { return {}; }
  // Lets the lanes run their entries from the time `zero` on; may be repeated.
  virtual void start(Clock::time_point zero) = 0;
  virtual bool finished() const = 0;  // all lanes have ended, or given up
  virtual void join() = 0;
  // Times of the last run; if it is still running or was given up, of what has happened so far.
  virtual TaskTime time_of(TaskId) const = 0;
  virtual LaneState state(Lane) const = 0;
};

}  // namespace ringsched
