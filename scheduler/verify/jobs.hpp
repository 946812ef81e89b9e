// Independent parts of one verification, on several threads. Each part has its own Findings. They
// are joined in the order of the parts, so that the report never depends on the threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "internal.hpp"

namespace ringsched {

using CheckJob = std::function<void(Findings&)>;

// Runs the jobs, on this thread and up to `threads` - 1 more. They start from the last one: put the
// longest there.
void run_jobs(std::uint32_t threads, std::span<const CheckJob> jobs, Findings&);

// A job for each of several ranges of the tasks, [first, end).
std::vector<CheckJob> jobs_over_tasks(
    const Plan&, std::uint32_t threads,
    const std::function<void(std::uint32_t first, std::uint32_t end, Findings&)>&);

}  // namespace ringsched
