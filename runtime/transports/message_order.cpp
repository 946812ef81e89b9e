#include "transports/message_order.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <vector>

#include "ringsched/scheduler/task_name.hpp"

namespace ringsched {

std::string order_conflict(const Plan& plan) {
  using Way = std::tuple<Lane, std::uint32_t, std::uint32_t>;  // from, to
  std::map<Way, std::vector<TaskId>> sent, received;           // sends, in the order of each end
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (!is_transfer(t.kind)) continue;
    const Task& other = plan.tasks[t.peer.value];
    if (t.lane != other.lane)
      return fmt::format("{} is on another lane than its other end", name_of(plan, {id}));
    if (is_send(t.kind))
      sent[{t.lane, t.worker_index, other.worker_index}].push_back({id});
    else
      received[{t.lane, other.worker_index, t.worker_index}].push_back(t.peer);
  }
  for (const auto& [way, sends] : sent) {
    const std::vector<TaskId>& receives = received[way];
    for (std::size_t i = 0; i < sends.size(); ++i)
      if (i >= receives.size() || sends[i] != receives[i])
        return fmt::format("{} is not received in the order in which it is sent",
                           name_of(plan, sends[i]));
  }
  return {};
}

}  // namespace ringsched
