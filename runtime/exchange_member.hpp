// What one member of an exchange does, in host memory. It gathers what is not contiguous, sends
// each other member its share, and puts together what it receives, always in the same order.
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "message_numbers.hpp"
#include "rectangle.hpp"

namespace ringsched {

class ExchangeMember {
 public:
  struct Memory {
    std::byte* given = nullptr;  // the tensor it gives, if there is one
    std::byte* made = nullptr;
    std::byte* staging = nullptr;  // as many bytes as staging_of() says
  };
  // Keeps a reference to the plan.
  ExchangeMember(const Plan&, const MessageNumbers&, TaskId, const Memory&);

  // In a run, one after the other, with the messages in between.
  void gather();
  void put_together();
  TaskId task() const { return task_; }
  const Rectangle& given() const { return given_; }  // the whole tensor; no rows if there is none
  const Rectangle& made() const { return made_; }
  const std::vector<MessageEnd>& messages() const { return messages_; }

  // The workers to which it still must send a message, or from which it awaits one. Callable at any
  // time, on any thread.
  std::vector<WorkerId> awaited() const;

 private:
  struct Move {
    Rectangle from, to;
  };
  void add_message(const MessageNumbers::Message&, std::uint32_t number, bool sends,
                   const Rectangle&);

  const Plan& plan_;
  const TaskId task_;
  ValueId value_;
  bool adds_ = false;
  Rectangle given_, made_;
  std::vector<Move> gathers_, puts_;
  std::vector<MessageEnd> messages_;
  std::deque<std::atomic<bool>> open_;  // by message
};

}  // namespace ringsched
