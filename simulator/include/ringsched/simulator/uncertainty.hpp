// How sure a prediction is. The figures of a machine are known to some percent each; a draw takes
// all of them from where they may be. Plans on one machine share their draws: where a figure is
// off, it is off for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// Standard deviations, as shares, of figures whose profile gives no `spread` (docs/model.md says
// where they come from).
inline constexpr double kKernelSpread = 0.06;   // of all kernels of a machine together
inline constexpr double kPassSpread = 0.04;     // ... of a pass, beside that
inline constexpr double kFormSpread = 0.04;     // ... and of a form of tiles
inline constexpr double kDerivedSpread = 0.10;  // of rates derived from another head dimension
inline constexpr double kBeyondSpread = 0.05;   // of rates beyond the ends of their table
inline constexpr double kLinkSpread = 0.10;
inline constexpr double kStartupSpread = 0.40;
inline constexpr double kSoftwareSpread = 0.15;
inline constexpr double kHostSpread = 0.40;
inline constexpr double kModelSpread = 0.05;  // what the model leaves out, by schedule

Deviation drawn(const Machine&, std::string_view schedule, std::uint64_t seed, std::uint32_t draw);

// As many as are quick; none on `ideal`, whose blocks are no figures.
std::uint32_t draws_for(const Machine&, std::size_t tasks);

// The makespan in each draw, the same on any number of threads.
std::vector<Picoseconds> possible_makespans(const Workload&, const Machine&, Conditions,
                                            std::uint32_t draws, unsigned threads = 0);

// Holds the makespan in 80 % of cases, if the figures are as sure as they are said to be.
struct Interval {
  Picoseconds low, high;
};
std::optional<Interval> interval(const std::vector<Picoseconds>& possible);

// The same of any positive values.
struct Range {
  double low = 0, high = 0;
};
std::optional<Range> range_80(std::vector<double> possible);

// In what share of the draws the first is faster. Between 20 and 80 % nobody can tell.
double beats(const std::vector<Picoseconds>& first, const std::vector<Picoseconds>& second);
inline constexpr double kTie = 0.8;

}  // namespace ringsched
