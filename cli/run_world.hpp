// The processes of a run: which there are, and what they put together afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/world.hpp"
#include "run_ending.hpp"

namespace ringsched {

// "" chooses: mpi where a launcher has started several processes. Throws Error where that cannot
// be.
std::unique_ptr<World> world_of(const std::string& transport, const Launch&);

// The times of all processes, on each.
Timeline joined(World&, const Plan&, const Timeline& own);

// The results of all processes checked, on each.
std::vector<CheckedResults> checked(World&, Watchdog&, const Plan&, const Inputs&, const Execution&,
                                    const CheckOptions&);

}  // namespace ringsched
