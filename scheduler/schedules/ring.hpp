// The movement of a ring: what visits worker r goes on to worker r + 1.
#pragma once

#include <vector>

#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

// `all`: keys go all the way round, and their gradients with them, even where nobody reads them.
void ring(const Problem&, PlanBuilder&, bool all);
void zigzag(const Problem&, PlanBuilder&, bool all);

inline bool sends_all(const Arguments& given) { return given["sends"] == 1; }

inline std::vector<Keys> keys_at_home(const PlanBuilder& plan, std::uint32_t workers) {
  std::vector<Keys> keys;
  for (std::uint32_t r = 0; r < workers; ++r) keys.push_back(plan.keys(WorkerId{r}));
  return keys;
}

inline std::vector<Keys> rotate(PlanBuilder& plan, const std::vector<Keys>& visiting, bool always) {
  const auto workers = static_cast<std::uint32_t>(visiting.size());
  std::vector<Keys> next(workers);
  for (std::uint32_t r = 0; r < workers; ++r) {
    const std::uint32_t neighbour = (r + 1) % workers;
    next[neighbour] = plan.move(visiting[r], WorkerId{neighbour}, {.always = always});
  }
  return next;
}

}  // namespace ringsched
