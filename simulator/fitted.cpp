#include "ringsched/simulator/fitted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

constexpr double kMost = 10;     // times more or less than the profile says
constexpr double kClose = 1e-3;  // of the measured time

struct Figure {
  const char* name;
  const char* change;  // as for --what-if; all but the latency are rates, so they take 1 / factor
  double spread;
  double influence = 0;  // on the makespan, of one more spread
};

double seconds(Picoseconds ps) { return static_cast<double>(ps.value); }

}  // namespace

double Fit::sigmas() const { return std::abs(factor - 1) / spread; }
bool Fit::within_spread() const { return sigmas() <= 1; }

Fit fit(const Plan& plan, const Setup& setup, Picoseconds measured, const StudyOptions& options) {
  const Machine& m = setup.machine;
  const Spreads s = spreads(m);
  std::vector<Figure> figures = {{"attention kernels", "kernels", s.kernels},
                                 {"links", "bandwidth", s.links},
                                 {"start-up of messages", "latency", s.startup},
                                 {"passes over memory", "memory", s.software}};
  if (!m.software.host.issues_in_no_time()) figures.push_back({"the host's work", "host", s.host});
  const auto scaled = [&](const Figure& f, double factor) {
    const bool rate = std::string_view(f.change) != "latency";
    return changed(setup, fmt::format("{}={}", f.change, rate ? 1 / factor : factor),
                   plan.problem.workers);
  };
  const auto makespan = [&](const Figure& f, double factor) {
    return makespan_of(plan, scaled(f, factor), options);
  };
  const Picoseconds predicted = makespan_of(plan, setup, options);
  for (Figure& f : figures)
    f.influence = std::abs(seconds(makespan(f, 1 + f.spread)) - seconds(predicted));
  std::stable_sort(figures.begin(), figures.end(),
                   [](const Figure& a, const Figure& b) { return a.influence > b.influence; });

  std::string too_weak;
  double least = seconds(predicted), most = least;
  for (const Figure& f : figures) {
    double low = measured < predicted ? 1 / kMost : 1, high = measured < predicted ? 1 : kMost;
    const Picoseconds fastest = makespan(f, low), slowest = makespan(f, high);
    least = std::min(least, seconds(fastest));
    most = std::max(most, seconds(slowest));
    if (f.influence > 0 && fastest <= measured && measured <= slowest) {
      for (int halvings = 0; halvings < 50 && high / low > 1 + 1e-12; ++halvings) {
        const double middle = std::sqrt(low * high);
        (makespan(f, middle) < measured ? low : high) = middle;
      }
      const double off = std::abs(seconds(makespan(f, high)) - seconds(measured));
      if (off <= kClose * seconds(measured))
        return {scaled(f, high).machine, f.name, high, f.spread, predicted, too_weak};
    }
    too_weak += (too_weak.empty() ? "" : ", ") + std::string(f.name);
  }
  if (seconds(measured) >= least && seconds(measured) <= most)
    fail(
        "no single figure of profile '{}' explains {:g} ms: the prediction jumps over this time as "
        "a figure changes; measure another problem",
        m.name, seconds(measured) / 1e9);
  fail(
      "{:g} ms is out of reach: even with one figure of profile '{}' {:g}x {}, the prediction is "
      "{} "
      "{:.4g} ms; check the time and its unit",
      seconds(measured) / 1e9, m.name, kMost, measured < predicted ? "better" : "worse",
      measured < predicted ? "at least" : "at most", (measured < predicted ? least : most) / 1e9);
}

}  // namespace ringsched
