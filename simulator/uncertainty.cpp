#include "ringsched/simulator/uncertainty.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "costs.hpp"
#include "ringsched/simulator/spread.hpp"

namespace ringsched {

namespace {

// FNV-1a.
std::uint64_t hashed(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

constexpr std::size_t kPairs = Draws::kPairs;

// The middles of kPairs equally probable parts of a normal distribution without its sign,
// ascending, scaled to variance 1.
std::array<double, kPairs> normal_quantiles() {
  std::array<double, kPairs> out{};
  double squares = 0;
  for (std::size_t i = 0; i < kPairs; ++i) {
    double low = 0, high = 4;
    while (high - low > 1e-12) {
      const double z = (low + high) / 2;
      (std::erf(z / std::numbers::sqrt2) < (static_cast<double>(i) + 0.5) / kPairs ? low : high) =
          z;
    }
    out[i] = low;
    squares += low * low;
  }
  for (double& z : out) z *= std::sqrt(kPairs / squares);
  return out;
}

// Normal numbers for a name, one for each pair of draws of a block: the quantiles of the
// distribution in random order, with random signs.
std::array<double, kPairs> normal_numbers(std::uint64_t name, std::uint64_t seed) {
  static const std::array<double, kPairs> quantiles = normal_quantiles();
  std::uint64_t random = mixed(seed ^ name);
  std::array<double, kPairs> out = quantiles;
  for (std::size_t i = kPairs; i > 1; --i) std::swap(out[i - 1], out[(random = mixed(random)) % i]);
  for (double& x : out)
    if ((random = mixed(random)) % 2 == 0) x = -x;
  return out;
}

double or_usual(double given, double usual) { return given > 0 ? given : usual; }

}  // namespace

Spreads spreads(const Machine& m) {
  double least_sure = 0;
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library) least_sure = std::max(least_sure, t.spread);
  return {or_usual(least_sure, kKernelSpread), or_usual(m.fabric.spread, kLinkSpread),
          or_usual(m.network.spread, kNetworkSpread), kStartupSpread,
          or_usual(m.software.spread, kSoftwareSpread),
          or_usual(m.software.host.spread, kHostSpread),
          // Noise is between workers, too.
          or_usual(m.devices_spread, m.sms > 0 && !(m.noise > 0) ? kDeviceSpread : 0)};
}

HostShares host_shares(const Plan& plan, SoftwareFigures software) {
  const HostFigures all = software.host;
  HostFigures attends, passes, messages, steps;
  attends.attend_us = all.attend_us;
  attends.attend_backward_us = all.attend_backward_us;
  passes.merge_us = all.merge_us;
  passes.slice_us = all.slice_us;
  passes.pass_us = all.pass_us;
  messages.post_us = all.post_us;
  messages.exchange_us = all.exchange_us;
  steps.call_us = all.call_us;
  steps.call_backward_us = all.call_backward_us;
  steps.step_us = all.step_us;
  steps.synchronises = all.synchronises;
  steps.synchronise_us = all.synchronise_us;
  if (all.graph_us > 0) return {0, 0, 0, 1};
  const auto time = [&](const HostFigures& some) {
    software.host = some;
    return static_cast<double>(issue_time(plan, software).value);
  };
  HostShares out{time(attends), time(passes), time(messages), time(steps)};
  const double sum = out.attends + out.passes + out.messages + out.steps;
  if (!(sum > 0)) return {};
  for (double* share : {&out.attends, &out.passes, &out.messages, &out.steps}) *share /= sum;
  return out;
}

// A few random numbers may by chance be all small, or similar for two figures, and an interval from
// them too narrow or too wide. So over a block of draws, each figure has variance 1 and no figure
// correlates with another: each gives up what it shares with those before it (Gram and Schmidt).
// Machines that share the sources of their first figures thus share these draws.
Draws::Block Draws::block(std::uint32_t number) const {
  const std::uint64_t seed = mixed(mixed(seed_) + number);
  Block out;
  const auto product = [](const Numbers& a, const Numbers& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / kPairs;
  };
  for (std::size_t i = 0; i < OfFigures; ++i) {
    out[i] = normal_numbers(figures_[i].name, seed);
    for (std::size_t before = 0; before < i; ++before) {
      const double shared = product(out[i], out[before]);
      for (std::size_t pair = 0; pair < kPairs; ++pair) out[i][pair] -= shared * out[before][pair];
    }
    const double scale = 1 / std::sqrt(product(out[i], out[i]));
    for (double& x : out[i]) x *= scale;
  }
  return out;
}

Draws::Draws(const Machine& m, std::string_view schedule, std::uint64_t seed,
             const HostShares& shares)
    : seed_(seed), of_calls_{shares.attends, shares.passes, shares.messages, shares.steps} {
  std::uint64_t tables = hashed("kernels");
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library) tables = hashed(t.source, tables);
  figures_[OfKernels] = {tables, spreads(m).kernels};
  constexpr const char* passes[] = {"forward", "backward"};
  constexpr const char* forms[] = {"full", "causal", "other"};
  for (std::size_t i = 0; i < 2; ++i)
    figures_[OfPasses + i] = {hashed(passes[i], tables), kPassSpread};
  for (std::size_t i = 0; i < 3; ++i)
    figures_[OfForms + i] = {hashed(forms[i], tables), kFormSpread};
  const auto figure = [](std::string_view what, std::string_view source, double given,
                         double usual) {
    return Figure{hashed(source, hashed(what)), or_usual(given, usual)};
  };
  const SoftwareFigures& s = m.software;
  figures_[OfDoubt] = {hashed("derived"), 1};
  figures_[OfStartup] = figure("start-up", "", 0, kStartupSpread);
  figures_[OfLinks] = figure("links", m.fabric.source, m.fabric.spread, kLinkSpread);
  figures_[OfSoftware] = figure("software", s.source, s.spread, kSoftwareSpread);
  figures_[OfProcessor] = figure("host", s.host.source, s.host.spread, kHostSpread);
  figures_[OfProcessor].spread *= kProcessorShare;
  constexpr const char* calls[] = {"attends", "passes", "messages", "steps"};
  for (std::size_t i = 0; i < 4; ++i)
    figures_[OfCalls + i] = figure(calls[i], s.host.source, s.host.spread, kHostSpread);
  figures_[OfNetwork] = figure("network", m.network.source, m.network.spread, kNetworkSpread);
  figures_[OfModel] = figure(schedule, "", 0, kModelSpread);
  first_ = block(0);
}

Deviation Draws::operator()(std::uint32_t draw) const {
  const std::uint32_t number = draw / kBlockOfDraws, pair = draw % kBlockOfDraws / 2;
  const Block other = number > 0 ? block(number) : Block{};
  const Block& all = number > 0 ? other : first_;
  // Every second draw is the previous one with all signs flipped, so that even a few draws are
  // centred on the figures: as much longer in one draw as shorter in the other, as a factor.
  const auto normal = [&](std::size_t i) { return draw % 2 == 0 ? all[i][pair] : -all[i][pair]; };
  const auto factor = [&](std::size_t i) {
    return Deviation::factor(figures_[i].spread * normal(i));
  };
  Deviation d;
  for (std::size_t pass = 0; pass < 2; ++pass)
    for (std::size_t form = 0; form < 3; ++form)
      d.attend[pass][form] = factor(OfKernels) * factor(OfPasses + pass) * factor(OfForms + form);
  d.doubt = normal(OfDoubt);
  d.pass = factor(OfSoftware);
  d.startup = factor(OfStartup);
  d.bytes = factor(OfLinks);
  d.bytes_between = factor(OfNetwork);
  d.host = 0;
  for (std::size_t i = 0; i < 4; ++i)
    d.host += of_calls_[i] * factor(OfCalls + i) * factor(OfProcessor);
  d.model = factor(OfModel);
  return d;
}

std::uint32_t draws_for(const Machine& m, std::size_t tasks) {
  constexpr std::size_t few_tasks = 5'000, most_tasks = 200'000;
  constexpr std::uint32_t at_least = 16;
  if (m.ideal || tasks > most_tasks) return 0;
  return tasks > few_tasks ? at_least : kBlockOfDraws;
}

std::vector<Picoseconds> possible_makespans(const Workload& w, const Machine& m, Conditions c,
                                            std::uint32_t draws, unsigned threads) {
  std::vector<Picoseconds> all(draws);
  const Draws drawn(m, w.plan->schedule, c.seed, host_shares(*w.plan, m.software));
  in_parallel(
      draws,
      [&](std::size_t i) {
        Conditions drawn_ones = c;
        drawn_ones.deviation = drawn(static_cast<std::uint32_t>(i));
        const double makespan = static_cast<double>(simulate(w, drawn_ones).makespan.value) *
                                drawn_ones.deviation.model;
        all[i] = {static_cast<std::int64_t>(std::min(makespan, 9e18))};
      },
      threads);
  return all;
}

std::optional<Range> range_80(std::vector<double> possible, double noise) {
  if (possible.size() < 2) return std::nullopt;
  constexpr double sigmas = 1.2816;  // a tenth of a normal distribution lies beyond
  std::ranges::sort(possible);
  const std::size_t n = possible.size(), half = n / 2;
  const double middle = (possible[half] + possible[(n - 1) / 2]) / 2;
  if (!(possible.front() > 0)) return Range{possible.front(), possible.back()};
  // How much longer, or shorter, as a factor: the root mean square of each half.
  double longer = 0, shorter = 0;
  for (std::size_t i = 0; i < half; ++i) {
    shorter += (middle / possible[i] - 1) * (middle / possible[i] - 1);
    longer += (possible[n - 1 - i] / middle - 1) * (possible[n - 1 - i] / middle - 1);
  }
  const auto reach = [&](double squares) {
    return 1 + sigmas * std::sqrt(squares / static_cast<double>(half) + noise * noise);
  };
  return Range{middle / reach(shorter), middle * reach(longer)};
}

std::optional<Interval> interval(const std::vector<Picoseconds>& possible,
                                 std::optional<Picoseconds> makespan) {
  std::vector<double> values;
  for (const Picoseconds p : possible) values.push_back(static_cast<double>(p.value));
  const std::optional<Range> range = range_80(std::move(values));
  if (!range) return std::nullopt;
  Interval out{{static_cast<std::int64_t>(range->low)},
               {static_cast<std::int64_t>(std::min(range->high, 9e18))}};
  if (makespan) out = {std::min(out.low, *makespan), std::max(out.high, *makespan)};
  return out;
}

double beats(const std::vector<Picoseconds>& first, const std::vector<Picoseconds>& second) {
  const std::size_t n = std::min(first.size(), second.size());
  if (n == 0) return 0.5;
  double wins = 0;
  for (std::size_t i = 0; i < n; ++i)
    wins += first[i] < second[i] ? 1 : first[i] == second[i] ? 0.5 : 0;
  return wins / static_cast<double>(n);
}

}  // namespace ringsched
