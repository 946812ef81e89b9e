// Many runs of one workload under noise, and their makespans.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

// Runs `count` pieces of work on all cores. Rethrows the exception with the lowest number.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                 unsigned threads = 0);

// The makespans of seeds seed, seed + 1, ..., in order; the same whatever the number of threads.
std::vector<Picoseconds> makespans(const Workload&, Conditions, std::uint32_t runs,
                                   unsigned threads = 0);

// How many runs a setup asks for. By default enough that their median hardly depends on the seeds:
// 1001 for a few tasks, and one for a million tasks, whose noise averages out, or for a setup
// without randomness.
inline constexpr std::uint32_t kMostRuns = 1001;
std::uint32_t runs_of(const Setup&, std::size_t tasks);

// The conditions of the median run, given the makespans of all.
Conditions middle_of(const std::vector<Picoseconds>& makespans, Conditions of_the_first);

// The value that `percent` of the values do not exceed.
Picoseconds percentile(std::vector<Picoseconds> values, double percent);

}  // namespace ringsched
