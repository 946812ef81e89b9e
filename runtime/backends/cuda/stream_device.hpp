// A worker whose lanes are streams: its calls go into the stream plan of its process.
#pragma once

#include <utility>

#include "backends/cuda/stream_plan.hpp"

namespace ringsched::cuda {

class StreamDevice : public Device {
 public:
  // The streams outlive it.
  StreamDevice(StreamPlan& streams, WorkerId worker) : streams_(streams), worker_(worker) {}

  void wait_for(Lane lane, TaskId task) override { streams_.wait_for(worker_, lane, task); }
  void begin(Lane lane, std::span<const TaskId> tasks) override {
    streams_.begin(worker_, lane, tasks);
  }
  void end(Lane lane, std::span<const TaskId> tasks) override {
    streams_.end(worker_, lane, tasks);
  }
  void compute(TaskId task, const Operands& operands) override {
    streams_.compute(worker_, task, operands);
  }
  void call(Lane lane, std::function<void()> function) override {
    streams_.call(worker_, lane, std::move(function));
  }

 protected:
  StreamPlan& streams_;
  const WorkerId worker_;
};

}  // namespace ringsched::cuda
