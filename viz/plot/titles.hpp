// Titles as sentences: what a chart shows, as its data have it.
#pragma once

#include <string>

#include "ringsched/viz/plot.hpp"

namespace ringsched {

// "balanced is fastest from 64K tokens on, zigzag below"
std::string title_of(const Plot& lines);
// "balanced is fastest in 14 of 20 settings"
std::string title_of(const BestMap&);
// "ulysses is fastest, ring needs the least memory"
std::string front_title(const Plot&);
// "187 of 206 predictions are within 10% of what was published"
std::string agreement_title(const Plot&, double tolerance);
// "balanced is fastest: it attends for 88% of its time; ring, the slowest, for 51%"
std::string title_of(const TimeBars&);
// "Kernels 2x faster would help most: the run would end 38% sooner"
std::string title_of(const Tornado&);
// "zigzag has the lowest median, 3.1% below that of ring"
std::string title_of(const RunsPlot&);

// Of few values, the nearest that is there.
double at_share(const std::vector<double>& sorted, double share);

}  // namespace ringsched
