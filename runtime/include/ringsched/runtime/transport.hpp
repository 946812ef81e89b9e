// The executor's interface to whatever moves tensors between workers.
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
  std::atomic<bool>* open = nullptr;  // if set, it is cleared once this end is complete

  void complete() const {
    if (open) open->store(false, std::memory_order_relaxed);
  }
};

class ExchangeMember;

class Transport {
 public:
  virtual ~Transport() = default;

  // Puts a group on a lane of a worker. Its messages are posted together when the lane reaches it,
  // and progress together; the lane continues once all are complete.
  virtual void exchange(Device&, WorkerId, Lane, std::vector<MessageEnd>) = 0;
  // Puts a member of an exchange on a lane: by messages, unless a transport has something better.
  virtual void exchange_as_member(Device&, WorkerId, Lane, ExchangeMember&);
  // How the exchanges of the plan run, for people; empty: nothing to report.
  virtual std::string exchanges() const { return {}; }
  virtual void begin_run() = 0;  // before each run, when no lane runs
  // Called again and again while lanes run, to find failures that nothing else reports. Throws
  // RunFailed.
  virtual void look() {}
  // Once, when a run is given up: ends waits of lanes that do not check the control, and releases
  // the memory of all messages. Returns soon.
  virtual void give_up() {}
};

}  // namespace ringsched
