#include "exchange_member.hpp"

#include <algorithm>

namespace ringsched {

ExchangeMember::ExchangeMember(const Plan& plan, const MessageNumbers& numbers, TaskId id,
                               const Memory& memory)
    : plan_(plan), task_(id) {
  const Task& task = plan.tasks[id.value];
  const Exchange& exchange = plan.exchange(task);
  const std::uint32_t self = id.value - exchange.first.value;
  const Piece& wanted = plan.piece(task);
  value_ = wanted.value;
  adds_ = adds_up(plan, exchange);
  made_ = rectangle(plan, memory.made, wanted, plan.regions[wanted.rows.value], wanted.columns);
  Piece given{};
  if (task.inputs[0].valid()) {
    const Tensor t = plan.tensor(task.inputs[0]);
    given = {t.value, t.rows, t.columns};
    given_ = rectangle(plan, memory.given, given, plan.regions[t.rows.value], t.columns);
  }
  std::byte* staging = memory.staging;
  const auto stage = [&](const Share& s) {
    const Rectangle out = packed(plan, staging, value_, s.rows, s.columns);
    staging += plan.program.bytes(value_, plan.layout.rows(s.rows), s.columns.count).value;
    return out;
  };
  const MessageNumbers::Shares& shares = numbers.of(task.exchange);
  for (std::uint32_t i = 0; i < shares.all.size(); ++i) {
    const Share& s = shares.all[i];
    if (s.from != self && s.to != self) continue;
    const std::uint32_t number = shares.first + i;
    const auto here = [&](const Piece& held, std::byte* data) {
      return rectangle(plan, data, held, s.rows, s.columns);
    };
    if (s.from == s.to) {
      puts_.push_back({here(given, memory.given), here(wanted, memory.made)});
      continue;
    }
    const bool sends = s.from == self;
    Rectangle at = sends ? here(given, memory.given) : here(wanted, memory.made);
    if (sends ? !is_run_at_giver(plan, exchange, s)
              : adds_ || !is_run_at_getter(plan, exchange, s)) {
      const Rectangle staged = stage(s);
      if (sends)
        gathers_.push_back({at, staged});
      else
        puts_.push_back({staged, at});
      at = staged;
    }
    add_message(*numbers.message(number), number, sends, at);
  }
}

void ExchangeMember::add_message(const MessageNumbers::Message& message, std::uint32_t number,
                                 bool sends, const Rectangle& at) {
  MessageEnd m;
  m.sends = sends;
  m.number = number;
  m.task = message.task;
  m.peer = sends ? message.to : message.from;
  set_place(m, at);
  m.open = &open_.emplace_back(false);
  messages_.push_back(m);
}

void ExchangeMember::gather() {
  for (std::atomic<bool>& open : open_) open.store(true, std::memory_order_relaxed);
  for (const Move& m : gathers_) copy(m.from, m.to);
}

void ExchangeMember::put_together() {
  if (adds_) clear(plan_, value_, made_);
  for (const Move& m : puts_) {
    if (adds_)
      add(plan_, value_, m.from, m.to);
    else
      copy(m.from, m.to);
  }
}

void Transport::exchange_as_member(Device& device, WorkerId worker, Lane lane,
                                   ExchangeMember& member) {
  device.call(lane, [&member] { member.gather(); });
  if (!member.messages().empty()) exchange(device, worker, lane, member.messages());
  device.call(lane, [&member] { member.put_together(); });
}

std::vector<WorkerId> ExchangeMember::awaited() const {
  std::vector<WorkerId> out;
  for (std::size_t i = 0; i < messages_.size(); ++i)
    if (open_[i].load(std::memory_order_relaxed)) out.push_back(messages_[i].peer);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace ringsched
