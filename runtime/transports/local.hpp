// Messages between workers that are threads of one process: the receiver copies from the sender's
// memory, once both ends are posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

class LocalTransport final : public Transport {
 public:
  LocalTransport(const Plan&, const Control&);

  void exchange(Device&, WorkerId, Lane, std::vector<MessageEnd>) override;
  void begin_run() override;

  // On the calling thread, until all are complete. Throws Stopped.
  void exchange_now(WorkerId, const std::vector<MessageEnd>&);

 private:
  // A worker's inbox: what was posted to it, or taken from it.
  struct Mailbox {
    std::mutex guard;
    std::condition_variable arrived, gone;
    std::unordered_map<std::uint32_t, const MessageEnd*> posted;  // to it, by number
    std::unordered_set<std::uint32_t> taken;                      // from it, by number
  };

  const Control& control_;
  std::deque<Mailbox> mailboxes_;
};

}  // namespace ringsched
