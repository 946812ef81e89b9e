// Many runs of one workload under noise, and what came of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

// Runs `count` pieces of work on all cores. The first exception, by number, is thrown on.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                 unsigned threads = 0);

// The makespans of seeds seed, seed + 1, ..., in order; the same whatever the number of threads.
std::vector<Picoseconds> makespans(const Workload&, Conditions, std::uint32_t runs,
                                   unsigned threads = 0);

// How many runs a setup asks for. Enough of them are as many as it takes until their middle hardly
// depends on which seeds they have: 1001 of a few tasks, one of a million, whose noise is its own
// average, or where nothing is left to chance.
std::uint32_t runs_of(const Setup&, std::size_t tasks);

// Of runs that took so long, the conditions of the middle one.
Conditions middle_of(const std::vector<Picoseconds>& makespans, Conditions of_the_first);

// The value that so many percent of the sorted ones do not exceed.
Picoseconds percentile(std::vector<Picoseconds> values, double percent);

}  // namespace ringsched
