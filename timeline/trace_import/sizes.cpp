// Plans may have the same counts of attends and messages: a ring with a full mask and zigzag, say.
// The shapes of the attends tell them apart.
#include <fmt/format.h>

#include <optional>

#include "matching.hpp"

namespace ringsched::trace_import {

SizeMatch match_sizes(const Plan& plan, const std::vector<WorkerTasks>& tasks,
                      const TakenCall& call) {
  struct Attend {
    std::size_t number;  // on its worker, from 1
    std::int64_t found, wanted;
  };
  SizeMatch out;
  std::int64_t found = 0, wanted = 0;
  for (std::size_t w = 0; w < tasks.size(); ++w) {
    std::int64_t smaller = 0;
    std::optional<Attend> first;
    for (std::size_t pass = 0, number = 0; pass < kPasses; ++pass) {
      const std::vector<TaskId>& attends = tasks[w].passes[pass].attends;
      for (std::size_t k = 0; k < attends.size(); ++k) {
        ++number;
        const Attend a{number, call.workers[w].passes[pass].attends[k].pairs,
                       plan.works[plan.tasks[attends[k].value].work.value].pairs.value};
        if (a.found < 0) continue;
        found += a.found;
        wanted += a.wanted;
        if (a.found >= a.wanted) continue;
        ++smaller;
        if (!first) first = a;
      }
    }
    if (first)
      out.mismatches.push_back(fmt::format(
          "{} smaller than the plan's on worker {}: number {} takes {} pairs of query and key in "
          "the trace, {} in the plan",
          counted(smaller, "attend") + (smaller == 1 ? " is" : " are"), w, first->number,
          first->found, first->wanted));
  }
  if (out.mismatches.empty() && found > wanted)
    out.notes.push_back(fmt::format(
        "attends take {:.2f} times as many pairs of query and key as the plan needs: another mask "
        "or schedule, or pairs that the run computes and hides",
        static_cast<double>(found) / static_cast<double>(wanted)));
  return out;
}

}  // namespace ringsched::trace_import
