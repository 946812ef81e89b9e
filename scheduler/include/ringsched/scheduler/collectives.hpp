// Collectives for schedules, written as the messages they are made of: what each worker sends and
// receives in one step is posted as one group, so verify, the simulator and the runtimes need to
// know nothing of them. Like any other move, a message that nobody reads is not planned.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

// By worker, then by owner: everybody's keys (queries) on every worker, straight from their owners
// in the step that is being written.
std::vector<std::vector<Keys>> all_gather_keys(PlanBuilder&, std::uint32_t workers);
std::vector<std::vector<Queries>> all_gather_queries(PlanBuilder&, std::uint32_t workers);

// The same round a ring, in the W - 1 steps from `first` on; each worker hands on what it got the
// step before. For the forward pass only: gradients cannot go home along a way that was left before
// the keys were used.
std::vector<std::vector<Keys>> all_gather_keys_by_ring(PlanBuilder&, std::uint32_t workers,
                                                       Step first);

// By worker: the parts of queries meant for it. Part i of each worker's share goes to worker i, so
// the layout must cut each share into as many chunks as there are workers.
std::vector<std::vector<Queries>> all_to_all_queries(PlanBuilder&, std::uint32_t workers);

// Partial results of everybody's queries, wherever they were made, go straight to the owners of the
// queries and are merged there.
void reduce_scatter(PlanBuilder&, std::vector<Partial>);

}  // namespace ringsched
