#include "message_numbers.hpp"

#include <algorithm>
#include <limits>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

MessageNumbers::MessageNumbers(const Plan& plan) : plan_(plan) {
  std::uint64_t next = plan.tasks.size();
  for (const Exchange& e : plan.exchanges) {
    exchanges_.push_back({shares_of(plan, e), static_cast<std::uint32_t>(next)});
    next += exchanges_.back().all.size();
    if (next > std::numeric_limits<std::uint32_t>::max())
      fail("the exchanges of the plan have more than {} messages, which no run can number",
           std::numeric_limits<std::uint32_t>::max());
  }
  end_ = static_cast<std::uint32_t>(next);
}

std::optional<MessageNumbers::Message> MessageNumbers::message(std::uint32_t number) const {
  if (number >= end_) return {};
  if (number < plan_.tasks.size()) {
    const Task& task = plan_.tasks[number];
    if (!is_send(task.kind)) return {};
    return Message{{number}, task.worker(), plan_.tasks[task.peer.value].worker()};
  }
  const auto after = std::upper_bound(
      exchanges_.begin(), exchanges_.end(), number,
      [](std::uint32_t n, const Shares& s) { return n < s.first; });  // some may have no shares
  const Shares& shares = *(after - 1);
  const Share& s = shares.all[number - shares.first];
  if (s.from == s.to) return {};
  const Exchange& e = plan_.exchanges[static_cast<std::size_t>(after - 1 - exchanges_.begin())];
  const auto worker = [&](std::uint32_t m) { return plan_.tasks[e.first.value + m].worker(); };
  return Message{{e.first.value + s.from}, worker(s.from), worker(s.to)};
}

}  // namespace ringsched
