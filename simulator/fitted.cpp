#include "ringsched/simulator/fitted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

constexpr double kMost = 10;     // times more or less than the profile says
constexpr double kClose = 1e-3;  // of the measured time

struct Figure {
  const char* name;
  std::string_view change;  // as for --what-if; all but the latency are rates: 1 / factor
  double spread;
  double influence = 0;  // on the makespan, of one more spread
};

double seconds(Picoseconds ps) { return static_cast<double>(ps.value); }

std::vector<Figure> figures_of(const Machine& m) {
  const Spreads s = spreads(m);
  std::vector<Figure> out = {{"attention kernels", "kernels", s.kernels},
                             {m.nodes > 1 ? "links inside nodes" : "links", "fabric", s.fabric},
                             {"start-up of messages", "latency", s.startup},
                             {"passes over memory", "memory", s.software}};
  if (m.nodes > 1) out.push_back({"links between nodes", "network", s.network});
  if (!m.software.host.issues_in_no_time()) out.push_back({"the host's work", "host", s.host});
  return out;
}

// What a fitted figure may still be off: as far as the other figures leave the makespan unsure.
void narrow(Machine& m, const Figure& f, double spread) {
  if (f.change == "kernels")
    for (KernelTable& t : m.kernels)
      if (t.library == m.library) t.spread = t.spread > 0 ? std::min(t.spread, spread) : spread;
  if (f.change == "fabric") m.fabric.spread = spread;
  if (f.change == "network") m.network.spread = spread;
  if (f.change == "memory") m.software.spread = spread;
  if (f.change == "host") m.software.host.spread = spread;
}

}  // namespace

// As far as in a draw: twice as long and half as long are equally far.
double Fit::sigmas() const { return (std::max(factor, 1 / factor) - 1) / spread; }
bool Fit::within_spread() const { return sigmas() <= 1; }

Fit fit(const Plan& plan, const Setup& setup, Picoseconds measured, const StudyOptions& options) {
  const Machine& m = setup.machine;
  std::vector<Figure> figures = figures_of(m);
  const auto scaled = [&](const Figure& f, double factor) {
    const double by = f.change == "latency" ? factor : 1 / factor;
    Setup out = changed(setup, fmt::format("{}={}", f.change, by), plan.problem.workers);
    if (f.change == "fabric") out.machine.fabric.channel_gb_per_s *= by;  // as in a draw
    return out;
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
  std::optional<Fit> best;
  for (const Figure& f : figures) {
    double low = measured < predicted ? 1 / kMost : 1, high = measured < predicted ? 1 : kMost;
    const Picoseconds fastest = makespan(f, low), slowest = makespan(f, high);
    least = std::min(least, seconds(fastest));
    most = std::max(most, seconds(slowest));
    const bool reaches = f.influence > 0 && fastest <= measured && measured <= slowest;
    for (int halvings = 0; reaches && halvings < 50 && high / low > 1 + 1e-9; ++halvings) {
      const double middle = std::sqrt(low * high);
      (makespan(f, middle) < measured ? low : high) = middle;
    }
    const double off = std::abs(seconds(makespan(f, high)) - seconds(measured));
    if (!reaches || off > kClose * seconds(measured)) {
      if (!best) too_weak += (too_weak.empty() ? "" : ", ") + std::string(f.name);
      continue;
    }
    Fit found{scaled(f, high).machine, f.name, high, f.spread, f.spread, predicted, too_weak};
    if (best && best->sigmas() <= found.sigmas()) continue;
    // What the model leaves out, and how devices differ, is in the measurement, too.
    double others = std::pow(std::hypot(kModelSpread, spreads(m).devices) * seconds(predicted), 2);
    for (const Figure& other : figures)
      if (&other != &f) others += other.influence * other.influence;
    if (found.within_spread() && f.change != "latency") {
      constexpr double kLeast = 0.01;
      found.left = std::min(f.spread, std::max(kLeast, f.spread * std::sqrt(others) / f.influence));
      narrow(found.machine, f, found.left);
    }
    best = std::move(found);
  }
  if (best) return *best;
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
