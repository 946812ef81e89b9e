#include "ringsched/simulator/uncertainty.hpp"

#include <algorithm>
#include <cmath>
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

// Numbers around 0 with variance 1, one for each name: a sum of four uniform ones, like the noise.
// Every second draw is the previous one with all signs flipped, so that even a few draws are
// centred on the figures.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint32_t draw)
      : from_(mixed(mixed(seed) + draw / 2)), sign_(draw % 2 == 0 ? 1 : -1) {}

  double operator()(std::uint64_t name) const {
    const std::uint64_t h = mixed(from_ ^ name);
    std::uint64_t sum = 0;
    for (int part = 0; part < 4; ++part) sum += h >> (16 * part) & 0xffff;
    constexpr double mean = 2 * 65535.0, per_sigma = 1.7320508075688772 / 65535;
    return sign_ * (static_cast<double>(sum) - mean) * per_sigma;
  }
  // As much longer in one draw as it is shorter in the other of its pair, as a factor.
  double factor(std::uint64_t name, double spread) const {
    return Deviation::factor(spread * (*this)(name));
  }

 private:
  std::uint64_t from_;
  double sign_;
};

double or_usual(double given, double usual) { return given > 0 ? given : usual; }

}  // namespace

Spreads spreads(const Machine& m) {
  double least_sure = 0;
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library) least_sure = std::max(least_sure, t.spread);
  return {or_usual(least_sure, kKernelSpread),
          or_usual(std::max(m.fabric.spread, m.network.spread), kLinkSpread), kStartupSpread,
          or_usual(m.software.spread, kSoftwareSpread),
          or_usual(m.software.host.spread, kHostSpread)};
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
  steps.step_us = all.step_us;
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

Draws::Draws(const Machine& m, std::string_view schedule, std::uint64_t seed,
             const HostShares& shares)
    : seed_(seed), of_calls_{shares.attends, shares.passes, shares.messages, shares.steps} {
  std::uint64_t tables = hashed("kernels");
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library) tables = hashed(t.source, tables);
  kernels_ = {tables, spreads(m).kernels};
  constexpr const char* passes[] = {"forward", "backward"};
  constexpr const char* forms[] = {"full", "causal", "other"};
  for (std::size_t i = 0; i < 2; ++i) passes_[i] = {hashed(passes[i], tables), kPassSpread};
  for (std::size_t i = 0; i < 3; ++i) forms_[i] = {hashed(forms[i], tables), kFormSpread};
  const auto figure = [](std::string_view what, std::string_view source, double given,
                         double usual) {
    return Figure{hashed(source, hashed(what)), or_usual(given, usual)};
  };
  const SoftwareFigures& s = m.software;
  doubt_ = hashed("derived");
  pass_ = figure("software", s.source, s.spread, kSoftwareSpread);
  startup_ = figure("start-up", "", 0, kStartupSpread);
  bytes_ = figure("links", m.fabric.source, m.fabric.spread, kLinkSpread);
  between_ = figure("network", m.network.source, m.network.spread, kLinkSpread);
  constexpr const char* calls[] = {"attends", "passes", "messages", "steps"};
  for (std::size_t i = 0; i < 4; ++i)
    calls_[i] = figure(calls[i], s.host.source, s.host.spread, kHostSpread);
  processor_ = figure("host", s.host.source, s.host.spread, kHostSpread);
  processor_.spread *= kProcessorShare;
  model_ = figure(schedule, "", 0, kModelSpread);
}

Deviation Draws::operator()(std::uint32_t draw) const {
  const Draw of(seed_, draw);
  const auto factor = [&](const Figure& f) { return of.factor(f.name, f.spread); };
  Deviation d;
  for (std::size_t pass = 0; pass < 2; ++pass)
    for (std::size_t form = 0; form < 3; ++form)
      d.attend[pass][form] = factor(kernels_) * factor(passes_[pass]) * factor(forms_[form]);
  d.doubt = of(doubt_);
  d.pass = factor(pass_);
  d.startup = factor(startup_);
  d.bytes = factor(bytes_);
  d.bytes_between = factor(between_);
  d.host = 0;
  for (std::size_t i = 0; i < 4; ++i)
    d.host += of_calls_[i] * factor(calls_[i]) * factor(processor_);
  d.model = factor(model_);
  return d;
}

std::uint32_t draws_for(const Machine& m, std::size_t tasks) {
  constexpr std::size_t most_tasks = 200'000, at_once = 64'000, most = 32;
  if (m.ideal || tasks > most_tasks) return 0;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(at_once / (tasks + 1), 8, most)) & ~1u;
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
