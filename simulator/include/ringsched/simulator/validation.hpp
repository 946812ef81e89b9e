// Compares predictions with measurements: the published ones (validation/), or a user's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ringsched/simulator/measurements.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

// What connects the workers of a result. Over PCIe, much depends on a machine that profiles do not
// know.
enum class LinkClass : std::uint8_t { OneDevice, NvLink, Pcie, Network };
inline constexpr LinkClass kLinkClasses[] = {LinkClass::OneDevice, LinkClass::NvLink,
                                             LinkClass::Pcie, LinkClass::Network};
const char* to_text(LinkClass);

struct ValidatedResult {
  std::string schedule;
  Overlap overlap = Overlap::Prefetch;
  Problem problem;
  double published = 0;   // in the unit of the group's quantity
  double predicted = 0;   // likewise
  double noise = 0;       // of the measurement: its standard deviation, as a share
  double error = 0;       // predicted over published, less 1; of an overhead: of the whole time
  double time_ratio = 1;  // predicted time over published time
  // Should hold the published value in 80% of cases, in the same unit.
  std::optional<Range> interval;
  double half_width = 0;  // of the interval of the time, as a share of the predicted time
  // By draw of the machine's figures: the time in ps, over that of what it is compared with, if
  // any.
  std::vector<double> possible;
  bool impossible = false;  // faster than the bytes over the busiest link, so not counted
  // Where the predicted time goes, in ms: the critical path's parts.
  double attending_ms = 0, overhead_ms = 0, communication_ms = 0, contention_ms = 0;
  double host_ms = 0, waiting_ms = 0;
  LinkClass links = LinkClass::OneDevice;
};

// Pairs of results of one problem whose published values differ by more than 3 percent, the
// variation of measurements; and how many of them are predicted in the published order. A
// prediction is sure of a pair if one of the two is larger in 80% of the draws.
struct Ranking {
  std::size_t pairs = 0, in_order = 0;
  std::size_t sure = 0, sure_in_order = 0;
};

struct ValidatedGroup {
  std::string name, by, source, why;
  Measure measure = Measure::Ms;
  std::string machine;
  bool order_only = false;
  std::vector<ValidatedResult> results;
  Ranking ranking() const;
};

// Does the interval contain the published value?
inline bool holds(const ValidatedResult& r) {
  return r.interval && r.interval->low <= r.published && r.published <= r.interval->high;
}

// A summary of the results that count: all except those that are impossible or compared by order
// only.
inline constexpr double kNarrow = 0.12;
struct Errors {
  std::size_t results = 0, impossible = 0;
  double median = 0, mean = 0;  // of absolute errors
  // The result whose time is furthest off as a factor: its error and its time_ratio.
  double worst = 0, worst_ratio = 1;
  std::string worst_group, worst_schedule;
  std::size_t too_fast = 0;  // predicted to take less time than was measured
  // How many have an interval, how many of these contain the published value, how many are narrower
  // than kNarrow each way, and the median half width.
  std::size_t intervals = 0, held = 0, narrow = 0;
  double half_width = 0;
  Ranking ranking;

  double worst_factor() const { return worst_ratio < 1 ? 1 / worst_ratio : worst_ratio; }
};

// A range of sizes, in tokens per worker: from `first` up to, but not including, `end`.
struct SizeClass {
  const char* name;
  std::int64_t first, end;
};
inline constexpr SizeClass kSizeClasses[] = {
    {"below 1K", 0, 1 << 10},
    {"1K to 4K", 1 << 10, (4 << 10) + 1},
    {"4K to 16K", (4 << 10) + 1, (16 << 10) + 1},
    {"above 16K", (16 << 10) + 1, std::numeric_limits<std::int64_t>::max()}};

struct Validation {
  std::vector<ValidatedGroup> groups;
  std::vector<Excluded> excluded;
  std::vector<std::string> sources() const;  // the groups' `by`, in order of appearance
  Errors errors() const;
  Errors errors_of(const std::string& source) const;
  Errors errors_of(const SizeClass&) const;  // of whole sequences; decoding is left out
  Errors errors_of(LinkClass) const;
};
Errors errors_of(const ValidatedGroup&);

// Throws Error, with the file and the line, if a schedule does not fit its problem or machine.
// `each` is called after each result, from any thread. The same on any number of threads.
Validation validate(const Measurements&, const std::function<void()>& each = {},
                    unsigned threads = 0);

}  // namespace ringsched
