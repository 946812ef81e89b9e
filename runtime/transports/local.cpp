#include "transports/local.hpp"

#include <cstring>
#include <memory>

namespace ringsched {

LocalTransport::LocalTransport(const Plan& plan, const Control& control)
    : control_(control), mailboxes_(plan.problem.workers) {}

void LocalTransport::begin_run() {
  for (Mailbox& box : mailboxes_) {
    box.posted.clear();
    box.taken.clear();
  }
}

void LocalTransport::exchange(Device& device, WorkerId worker, Lane lane,
                              std::vector<MessageEnd> messages) {
  device.call(lane,
              [this, worker, messages = std::move(messages)] { exchange_now(worker, messages); });
}

void LocalTransport::exchange_now(WorkerId worker, const std::vector<MessageEnd>& messages) {
  Mailbox& own = mailboxes_[worker.value];
  std::vector<const MessageEnd*> receives;
  for (const MessageEnd& m : messages) {
    if (!m.sends) {
      receives.push_back(&m);
      continue;
    }
    Mailbox& other = mailboxes_[m.peer.value];
    {
      const std::lock_guard lock(other.guard);
      other.posted.emplace(m.number, &m);
    }
    other.arrived.notify_all();
  }
  while (!receives.empty()) {
    const MessageEnd* to = nullptr;
    const MessageEnd* from = nullptr;
    {
      std::unique_lock lock(own.guard);
      wait_until(control_, own.arrived, lock, [&] {
        for (const MessageEnd* m : receives) {
          const auto posted = own.posted.find(m->number);
          if (posted == own.posted.end()) continue;
          to = m;
          from = posted->second;
          own.posted.erase(posted);
          return true;
        }
        return false;
      });
    }
    for (std::size_t i = 0; i < to->piece.size(); ++i)
      if (to->bytes[i] > 0)
        std::memcpy(to->piece[i], from->piece[i], static_cast<std::size_t>(to->bytes[i]));
    to->complete();
    from->complete();  // the sender still waits for all it has posted
    std::erase(receives, to);
    Mailbox& other = mailboxes_[to->peer.value];
    {
      const std::lock_guard lock(other.guard);
      other.taken.insert(to->number);
    }
    other.gone.notify_all();
  }
  std::unique_lock lock(own.guard);
  for (const MessageEnd& m : messages)
    if (m.sends)
      wait_until(control_, own.gone, lock, [&] { return own.taken.erase(m.number) > 0; });
}

}  // namespace ringsched
