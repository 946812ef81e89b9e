// How uncertain a prediction is. Each figure of a machine is known to some percent; a draw varies
// all of them within that. Plans share their draws by the source of the figures: a figure that is
// off is off for all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// Standard deviations, as shares, of figures whose profile gives no `spread` (docs/model.md gives
// the reasons).
inline constexpr double kKernelSpread = 0.06;      // of all kernels of a machine together
inline constexpr double kPassSpread = 0.04;        // ... of a pass, in addition
inline constexpr double kFormSpread = 0.04;        // ... and of a form of tiles
inline constexpr double kDerivedSpread = 0.15;     // of rates derived from another head dimension
inline constexpr double kNearestSpread = 0.25;     // ... or copied from it
inline constexpr double kOtherMaskSpread = 0.055;  // ... from the other mask's, by their blocks
inline constexpr double kWindowSpread = 0.06;      // of tiles that a window cuts
inline constexpr double kVariantSpread = 0.05;     // of kernels that the table is not of
inline constexpr double kDocumentSpread = 0.03;    // of tiles that packed documents cut
inline constexpr double kPackedSpread = 0.03;      // ... for packed sequences, if it says nothing
inline constexpr double kBeyondSpread = 0.05;      // of rates beyond the ends of their table
inline constexpr double kDecodeSpread = 0.20;      // of decoding, which no table has
inline constexpr double kNoTableSpread = 0.15;     // of exchanges without a table
inline constexpr double kOtherTableSpread = 0.10;  // ... or a table of other members, groups, sizes
inline constexpr double kPcieTableSpread = 1.0;    // ... over PCIe, without a table
inline constexpr double kLinkSpread = 0.10;        // inside a node
inline constexpr double kNetworkSpread = 0.18;
inline constexpr double kStartupSpread = 0.80;
inline constexpr double kSoftwareSpread = 0.15;
inline constexpr double kHostSpread = 0.60;     // of each kind of call
inline constexpr double kProcessorShare = 0.5;  // ... as a share of it, of all calls together
inline constexpr double kDeviceSpread = 0.016;  // between the GPUs of a machine, at one kernel
inline constexpr double kModelSpread = 0.03;    // what the model leaves out, by schedule

// The spreads of a machine's figures: from its profile, or the usual ones.
struct Spreads {
  double kernels = 0, fabric = 0, network = 0, startup = 0, software = 0, host = 0, devices = 0;
};
Spreads spreads(const Machine&);

// What takes the host's time, as shares that sum to 1.
struct HostShares {
  double attends = 1, passes = 0, messages = 0, steps = 0;
};
HostShares host_shares(const Plan&, SoftwareFigures);

// Over as many draws, figures deviate by exactly their spreads, and independently of each other.
inline constexpr std::uint32_t kBlockOfDraws = 64;

// How far off a machine's figures are, draw by draw. Figures of one source are off together, on
// every machine; the model's own error belongs to the schedule.
class Draws {
 public:
  static constexpr std::size_t kPairs = kBlockOfDraws / 2;

  Draws(const Machine&, std::string_view schedule, std::uint64_t seed, const HostShares& = {});
  Deviation operator()(std::uint32_t draw) const;

 private:
  // Places of figures: first those that most machines share.
  enum : std::size_t {
    OfKernels,
    OfPasses,                // forward, backward
    OfForms = OfPasses + 2,  // full, causal, other
    OfDoubt = OfForms + 3,   // of what is extrapolated
    OfStartup,
    OfLinks,
    OfSoftware,
    OfProcessor,
    OfCalls,  // attends, passes, messages, steps
    OfNetwork = OfCalls + 4,
    OfModel,
    OfFigures
  };
  struct Figure {
    std::uint64_t name = 0;
    double spread = 0;  // standard deviation, as a share
  };
  using Numbers = std::array<double, kPairs>;
  using Block = std::array<Numbers, OfFigures>;
  Block block(std::uint32_t number) const;

  std::uint64_t seed_;
  std::array<Figure, OfFigures> figures_{};
  double of_calls_[4];  // of the host's time
  Block first_;
};

// A block, or fewer for a large plan; none on `ideal`, which has no figures.
std::uint32_t draws_for(const Machine&, std::size_t tasks);

// The makespan in each draw, the same on any number of threads.
std::vector<Picoseconds> possible_makespans(const Workload&, const Machine&, Conditions,
                                            std::uint32_t draws, unsigned threads = 0);

// Contains the makespan in 80% of cases, if the spreads are right.
struct Interval {
  Picoseconds low, high;
};
// `makespan`: the prediction. The interval includes it even if most draws lie above it: of two
// equally long parts, either may take longer.
std::optional<Interval> interval(const std::vector<Picoseconds>& possible,
                                 std::optional<Picoseconds> makespan = {});

// The same for any positive values. `noise`: the additional error of each measurement.
struct Range {
  double low = 0, high = 0;
};
std::optional<Range> range_80(std::vector<double> possible, double noise = 0);

// In what share of the draws the first is faster. Between 20 and 80% nobody can tell.
double beats(const std::vector<Picoseconds>& first, const std::vector<Picoseconds>& second);
inline constexpr double kTie = 0.8;

}  // namespace ringsched
