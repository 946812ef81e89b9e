// The operations on all streams of a process, as data: written while a run is put on its lanes,
// inspected by tests, and executed by a process with a GPU.
//
// A stream does its ops in order. It waits only for events that are already recorded. So ops are
// submitted in an order in which every event is recorded before any wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched::cuda {

struct Op {
  enum class Kind : std::uint8_t {
    Begin,    // of a task, or of the group of tasks that begins with it
    End,      // likewise: records its event
    Compute,  // task; payload: which operands
    Call,     // payload: which function
    Record,   // event
    Wait,     // event
    Copy,     // payload: which message
  };
  Kind kind;
  TaskId task;
  std::uint32_t event = 0;
  std::uint32_t payload = 0;
};

// Both ends of a message within this process. The receiver copies.
struct Delivery {
  bool has_sender = false, has_receiver = false;
  WorkerId sender, receiver;
  std::uint32_t posted = 0, arrived = 0;  // events: it may be read; it has been
  MessageEnd from, to;
};

// A piece of memory that is copied as one.
struct CopiedPiece {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};
std::vector<CopiedPiece> pieces(const Delivery&);

class StreamPlan {
 public:
  explicit StreamPlan(const Plan&);

  const LaneNumbers& numbers() const { return numbers_; }
  const std::vector<std::vector<Op>>& lanes() const { return lanes_; }
  std::uint32_t events() const { return events_; }
  const std::vector<TaskId>& group(TaskId first) const { return groups_.at(first.value); }
  std::uint32_t end_event(TaskId task) const { return end_events_[task.value]; }
  const Operands& operands(const Op& op) const { return operands_[op.payload]; }
  const std::function<void()>& function(const Op& op) const { return functions_[op.payload]; }
  const Delivery& delivery(const Op& op) const { return deliveries_[op.payload]; }

  void wait_for(WorkerId, Lane, TaskId);
  void begin(WorkerId, Lane, std::span<const TaskId>);
  void end(WorkerId, Lane, std::span<const TaskId>);
  void compute(WorkerId, TaskId, const Operands&);
  void call(WorkerId, Lane, std::function<void()>);
  // A group of messages between workers of this process.
  void exchange(WorkerId, Lane, const std::vector<MessageEnd>&);

 private:
  void put(WorkerId, Lane, Op);
  Delivery& delivery_of(TaskId send);
  std::uint32_t delivery_number(TaskId send) const;

  const Plan& plan_;
  const LaneNumbers numbers_;
  std::vector<std::vector<Op>> lanes_;  // as numbered
  std::uint32_t events_ = 0;
  std::vector<std::uint32_t> end_events_;  // by task
  std::unordered_map<std::uint32_t, std::vector<TaskId>> groups_;
  std::vector<Operands> operands_;
  std::vector<std::function<void()>> functions_;
  std::vector<Delivery> deliveries_;
  std::unordered_map<std::uint32_t, std::uint32_t> delivery_numbers_;  // by send
};

struct Submitted {
  std::uint32_t lane, op;
};

// All ops, in an order in which they may be submitted. Transfer lanes come first: what reaches a
// busy GPU early has begun when the next kernel fills it. Throws RunFailed if there is no such
// order, because nobody records an awaited event.
std::vector<Submitted> submission_order(const StreamPlan&);

// Messages between workers of this process, through its stream plan.
class StreamTransport final : public Transport {
 public:
  // Which outlives it.
  explicit StreamTransport(StreamPlan& streams) : streams_(streams) {}
  void exchange(Device&, WorkerId worker, Lane lane, std::vector<MessageEnd> messages) override {
    streams_.exchange(worker, lane, messages);
  }
  void begin_run() override {}

 private:
  StreamPlan& streams_;
};

}  // namespace ringsched::cuda
