// Each message of a plan has a number, the same in all processes. A send has the number of its
// task; the shares of the exchanges follow after all tasks, exchange by exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class MessageNumbers {
 public:
  // Keeps a reference to the plan. Throws Error if 32 bits are too few for its messages.
  explicit MessageNumbers(const Plan&);

  // Of an exchange: all its shares, and the number of the first; the others follow. What a member
  // keeps for itself has a number, too, but is not a message.
  struct Shares {
    std::vector<Share> all;
    std::uint32_t first = 0;
  };
  const Shares& of(ExchangeId e) const { return exchanges_[e.value]; }
  std::uint32_t end() const { return end_; }  // all numbers are below

  struct Message {
    TaskId task;  // the send, or the member that gives
    WorkerId from, to;
  };
  // None if no message has this number.
  std::optional<Message> message(std::uint32_t number) const;
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t n = 0; n < end_; ++n)
      if (const std::optional<Message> m = message(n)) visit(*m);
  }

 private:
  const Plan& plan_;
  std::vector<Shares> exchanges_;
  std::uint32_t end_ = 0;
};

}  // namespace ringsched
