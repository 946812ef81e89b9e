// A worker on a CPU: a thread for each lane.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "backends/cpu/core_gate.hpp"
#include "backends/cpu/operations.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/device.hpp"

namespace ringsched {

class CpuDevice final : public Device {
 public:
  // For a worker with these tasks: all of them, in order. Keeps references to the plan and the
  // control.
  CpuDevice(const Plan&, WorkerId, std::span<const TaskId>, Control&, const CpuOptions&);
  ~CpuDevice() override;

  std::byte* allocate(Bytes) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void wait_for(Lane, TaskId) override;
  void begin(Lane, std::span<const TaskId>) override;
  void end(Lane, std::span<const TaskId>) override;
  void compute(TaskId, const Operands&) override;
  void call(Lane, std::function<void()>) override;
  void start(Clock::time_point zero) override;
  bool finished() const override;
  void join() override;
  TaskTime time_of(TaskId) const override;
  LaneState state(Lane) const override;

 private:
  struct Wait {
    std::uint32_t task;
  };
  struct Begin {
    std::vector<std::uint32_t> tasks;
  };
  struct End {
    std::vector<std::uint32_t> tasks;
  };
  struct Compute {
    TaskId task;
    Operands operands;
  };
  using Instruction = std::variant<Wait, Begin, End, Compute, std::function<void()>>;
  struct alignas(64) LaneThread {
    std::vector<Instruction> program;
    std::thread thread;
    std::atomic<std::uint32_t> at{~0u};  // the task it is at, as numbered here
    std::atomic<std::int64_t> since{0};  // nanoseconds since the run began
    std::atomic<bool> for_core{false};   // it waits for its turn
    std::atomic<bool> finished{true};
    std::uint32_t awaits = ~0u;  // the task of another lane that it waits for; guarded
    std::condition_variable news;
  };

  LaneThread& lane(Lane l) { return lanes_[static_cast<std::size_t>(l)]; }
  const LaneThread& lane(Lane l) const { return lanes_[static_cast<std::size_t>(l)]; }
  std::uint32_t number(TaskId) const;  // of a task among those of this worker
  std::vector<std::uint32_t> numbers(std::span<const TaskId>) const;
  bool asks_at_once() const;
  std::int64_t now() const;
  void run(LaneThread&);
  void execute(LaneThread&, const Instruction&, CoreGate::Turn*);
  void wait(LaneThread&, std::uint32_t task, CoreGate::Turn*);
  void ended(const std::vector<std::uint32_t>& tasks);

  const Plan& plan_;
  const WorkerId worker_;
  Control& control_;
  const CpuOptions options_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> memory_;
  const std::vector<TaskId> tasks_;      // of this worker, in order
  std::vector<std::int64_t> work_left_;  // by task; only if cores are shared
  struct Times {
    std::atomic<std::int64_t> start{TaskTime::kNotYet}, end{TaskTime::kNotYet};
  };
  std::vector<Times> times_;
  Clock::time_point zero_;
  std::vector<LaneThread> lanes_;  // of the plan
  CpuOperations operations_;
  cpu::Scratch scratch_;   // if no gate has one for each core
  CoreGate::Place place_;  // a gate's

  std::mutex guard_;
  std::vector<bool> ended_;  // guarded
};

}  // namespace ringsched
