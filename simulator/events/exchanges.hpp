// Exchanges: all members post and pack, bytes flow, members unpack, and all end at once.
#pragma once

#include <algorithm>

#include "exchange_prices.hpp"
#include "run.hpp"

namespace ringsched {

inline void EventRun::join_exchange(std::uint32_t number) {
  if (--exchanges_[number].missing > 0) return;
  const ExchangeTimes times = costs_.exchange(number);
  if (const std::int64_t before = after(times.packing, times.startup); before > 0)
    schedule(after(now_, before), GoesOn, number, kStarts);
  else
    start_exchange(number);
}

inline void EventRun::start_exchange(std::uint32_t number) {
  const double stretch = costs_.exchange(number).stretch;
  if (stretch > 0)
    for (const ExchangeFlow& f : workload_.exchanges[number].flows) {
      if (!moves(f)) continue;
      ++exchanges_[number].open;
      add_flow({kNone, copying_of(f), number}, f.route, f.bytes * stretch);
    }
  if (exchanges_[number].open == 0) unpack(number);
}

inline void EventRun::unpack(std::uint32_t number) {
  if (const std::int64_t ps = costs_.exchange(number).unpacking; ps > 0)
    schedule(after(now_, ps), GoesOn, number, kEnds);
  else
    end_exchange(number);
}

inline void EventRun::end_exchange(std::uint32_t number) {
  const Exchange& e = plan_.exchanges[number];
  for (std::uint32_t id = e.first.value; id < e.end(); ++id)
    complete_group(numbers_.of(plan_.tasks[id]), kNone);
}

// A link counts the bytes of the exchange, not those that its flows moved to match the measured
// time.
inline void EventRun::count_links_of_exchanges() {
  for (std::uint32_t e = 0; e < plan_.exchanges.size(); ++e) {
    const double more = costs_.exchange(e).stretch - 1;
    if (more == 0) continue;
    for (const ExchangeFlow& f : workload_.exchanges[e].flows)
      if (moves(f))
        for (const LinkId link : f.route.over()) {
          LinkUse& use = out_.links[link.value];
          use.bytes = std::max(0.0, use.bytes - more * f.bytes);
          use.saved += std::max(0.0, -more * f.bytes);
        }
  }
}

}  // namespace ringsched
