// What the executor asks of whatever moves tensors between workers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringsched/runtime/device.hpp"

namespace ringsched {

// One end of a message: which rows of each matrix of a tensor to send, or where to receive them.
struct MessageEnd {
  bool sends = false;
  std::uint32_t number = 0;  // as MessageNumbers has it, the same at both ends
  TaskId task;  // of the send, or of the member of an exchange that gives, at both ends
  WorkerId peer;
  std::array<std::byte*, 3> piece{};
  std::array<std::int64_t, 3> bytes{};
  std::atomic<bool>* open = nullptr;  // if there is one, it is cleared once this end is complete

  void complete() const {
    if (open) open->store(false, std::memory_order_relaxed);
  }
};

class ExchangeMember;

class Transport {
 public:
  virtual ~Transport() = default;

  // Puts a group on a lane of a worker: its messages are posted together when the lane comes to
  // it, progress together, and the lane goes on once all are complete.
  virtual void exchange(Device&, WorkerId, Lane, std::vector<MessageEnd>) = 0;
  // Puts what a member of an exchange does on a lane: by messages, unless a transport has better.
  virtual void exchange_as_member(Device&, WorkerId, Lane, ExchangeMember&);
  // How the exchanges of the plan run, for people; empty: there is nothing to say.
  virtual std::string exchanges() const { return {}; }
  virtual void begin_run() = 0;  // before each run, when no lane runs
  // While lanes run, again and again: for what fails without anybody being told. Throws RunFailed.
  virtual void look() {}
  // Once, when a run is given up: ends what lanes wait for that do not look at the control, and
  // lets go of the memory of all messages. Returns soon.
  virtual void give_up() {}
};

}  // namespace ringsched
