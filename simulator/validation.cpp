#include "ringsched/simulator/validation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "kernel_time.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/as_run.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/simulator/study.hpp"

namespace ringsched {

namespace {

// The same machine with links that cost nothing.
Machine without_communication(Machine m) {
  for (LinkFigures* link : {&m.fabric.link, &m.network.link}) {
    link->gb_per_s = 1e9;
    link->latency_us = 0;
    link->messages.clear();
  }
  m.fabric.core_gb_per_s = m.fabric.host_gb_per_s = m.fabric.channel_gb_per_s = 0;
  m.fabric.uplink_gb_per_s = 1e9;
  m.network.oversubscription = 1;
  m.comm_sms = 0;
  m.comm_slowdown = 1;
  m.comm_waits_for_kernel = false;
  return m;
}

double flops(const Problem& p) {
  const TokenRange all = {0, 1, p.tokens.value};
  const Pairs pairs = p.mask.tile(TokenSet({&all, 1}), TokenSet({&all, 1})).pairs;
  return (p.pass != Pass::Backward ? attention_flops(p, pairs, p.heads, false) : 0) +
         (p.pass != Pass::Forward ? attention_flops(p, pairs, p.heads, true) : 0);
}

// A call of a plan on a machine, as a benchmark sees it.
struct Call {
  Study study;
  double host_ps = 0;            // the host's time beyond the device's, if it runs ahead
  std::vector<double> possible;  // ps, by draw of the machine's figures
  double ps() const { return static_cast<double>(study.report.makespan.value) + host_ps; }
};

// In a loop that never waits for the device, the host issues a call while the device works on
// earlier ones: the slower of the two sets the pace.
Call called(const Plan& plan, const Machine& machine, bool loop) {
  // A host that synchronises is not ahead.
  loop = loop && machine.software.host.synchronises == Synchronises::Never;
  const double host = loop ? static_cast<double>(issue_time(plan, machine.software).value) : 0;
  Machine device = machine;
  if (loop) device.software.host = {};
  StudyOptions options;
  options.how_sure = true;
  options.threads = 1;
  Call c{study(plan, {std::move(device), {}}, options), 0, {}};
  c.host_ps = std::max(0.0, host - c.ps());
  const Draws drawn(machine, plan.schedule, c.study.conditions.seed,
                    host_shares(plan, machine.software));
  for (std::uint32_t i = 0; i < c.study.possible.size(); ++i) {
    const Deviation d = drawn(i);
    c.possible.push_back(
        std::max(static_cast<double>(c.study.possible[i].value), host * d.host * d.model));
  }
  return c;
}

// Whether more of it means less time.
bool is_rate(Measure q) { return q != Measure::Ms && q != Measure::Overhead; }

// The source's value for a call that takes this long, where another one takes `other` ps: the call
// with free communication, another schedule's, or one device.
double in_unit(Measure measure, double ps, double other, const Problem& p) {
  switch (measure) {
    case Measure::IterationsPerS:
      return 1e12 / ps;
    case Measure::Ms:
      return ps * 1e-9;
    case Measure::Speedup:
    case Measure::SpeedupOver:
      return other / ps;
    case Measure::TflopsPerDevice:
      return flops(p) / ps / p.workers;
    case Measure::Overhead:
      break;
  }
  return ps / other - 1;
}

// What a call is compared with, ps: as predicted, and by draw.
struct Other {
  double ps = 1;
  std::vector<double> possible;
};

Other compared_with(const Call& call, const Plan& plan, Overlap overlap, const MeasuredGroup& g) {
  Other out;
  if (g.measure == Measure::Speedup) {
    out.ps = static_cast<double>(call.study.one_device.value);
    const Draws drawn(g.machine, plan.schedule, call.study.conditions.seed);
    for (std::uint32_t i = 0; i < call.possible.size(); ++i)
      out.possible.push_back(
          static_cast<double>(one_device(call.study.workload, g.machine, drawn(i)).value));
  } else if (g.measure == Measure::Overhead) {
    const Call free = called(plan, without_communication(g.machine), g.loop);
    out = {free.ps(), free.possible};
  } else if (g.measure == Measure::SpeedupOver) {
    const Plan over = limit_communication(
        build_plan(plan.without_padding(), find_schedule(as_run(g.over, g.machine.software))),
        {overlap, 0});
    const Call slower = called(over, g.machine, g.loop);
    out = {slower.ps(), slower.possible};
  } else {
    out.possible.assign(call.possible.size(), 1);
  }
  return out;
}

// The times, over those of what they are compared with, by draw.
std::vector<double> ratios_of(const Call& call, const Other& other) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(call.possible.size(), other.possible.size()); ++i)
    ratios.push_back(call.possible[i] / other.possible[i]);
  return ratios;
}

// How probable it is that the first is measured to take longer, with the noise of both.
double takes_longer(const ValidatedResult& a, const ValidatedResult& b) {
  const std::size_t draws = std::min(a.possible.size(), b.possible.size());
  if (draws == 0) return 0.5;
  const double noise = std::hypot(a.noise, b.noise);
  double sum = 0;
  for (std::size_t i = 0; i < draws; ++i) {
    const double lead = std::log(a.possible[i] / b.possible[i]);
    sum += noise > 0   ? std::erfc(-lead / (std::numbers::sqrt2 * noise)) / 2
           : lead > 0  ? 1
           : lead == 0 ? 0.5
                       : 0;
  }
  return sum / static_cast<double>(draws);
}

LinkClass links_of(const Machine& m, const Network& network, std::uint32_t workers) {
  const WorkerId last{workers - 1};
  return network.node_of(last) > 0       ? LinkClass::Network
         : network.device(last) == 0     ? LinkClass::OneDevice
         : m.fabric.kind == Fabric::Pcie ? LinkClass::Pcie
                                         : LinkClass::NvLink;
}

ValidatedResult validated(const MeasuredResult& m, const MeasuredGroup& g) {
  ValidatedResult out;
  out.schedule = m.schedule;
  out.overlap = m.overlap;
  out.problem = m.problem;
  out.published = m.published;
  out.noise = m.noise;
  const Schedule schedule = find_schedule(as_run(m.schedule, g.machine.software));
  const Plan plan = limit_communication(build_plan(m.problem, schedule), {m.overlap, 0});
  const Call call = called(plan, g.machine, g.loop);
  const Other other = compared_with(call, plan, m.overlap, g);
  out.predicted = in_unit(g.measure, call.ps(), other.ps, m.problem);
  out.possible = ratios_of(call, other);
  if (std::optional<Range> times = range_80(out.possible, m.noise)) {
    const double time = call.ps() / other.ps;
    *times = {std::min(times->low, time), std::max(times->high, time)};
    const double a = in_unit(g.measure, times->low, 1, m.problem);
    const double b = in_unit(g.measure, times->high, 1, m.problem);
    out.interval = {std::min(a, b), std::max(a, b)};
    out.half_width = (times->high - times->low) / 2 / time;
  }
  const bool overhead = g.measure == Measure::Overhead;
  const double ratio =
      overhead ? (1 + out.predicted) / (1 + out.published) : out.predicted / out.published;
  out.error = ratio - 1;
  out.time_ratio = is_rate(g.measure) ? 1 / ratio : ratio;
  const Report& r = call.study.report;
  // The makespan that a published overhead implies is shorter than the bytes take.
  out.impossible = overhead && call.ps() / ratio < static_cast<double>(r.bounds.link.value);
  const auto ms = [](Picoseconds t) { return static_cast<double>(t.value) * 1e-9; };
  out.attending_ms = ms(r.path.attending);
  out.overhead_ms = ms(r.path.overhead);
  out.communication_ms = ms(r.path.startup + r.path.below_speed + r.path.wire);
  out.contention_ms = ms(r.path.contention);
  out.host_ms = ms(r.path.host) + call.host_ps * 1e-9;
  out.waiting_ms = ms(r.path.waiting);
  out.links = links_of(g.machine, call.study.workload.network, out.problem.workers);
  return out;
}

// Gathers the results that count, one by one.
class Gathered {
 public:
  void add(const ValidatedGroup& g) {
    const Ranking ranking = g.ranking();
    out_.ranking.pairs += ranking.pairs;
    out_.ranking.in_order += ranking.in_order;
    out_.ranking.sure += ranking.sure;
    out_.ranking.sure_in_order += ranking.sure_in_order;
    for (const ValidatedResult& r : g.results) {
      out_.impossible += r.impossible ? 1 : 0;
      if (r.impossible || g.order_only) continue;
      absolute_.push_back(std::abs(r.error));
      out_.too_fast += r.time_ratio < 1 ? 1 : 0;
      if (r.interval) {
        widths_.push_back(r.half_width);
        out_.held += holds(r) ? 1 : 0;
        out_.narrow += r.half_width < kNarrow ? 1 : 0;
      }
      if (std::max(r.time_ratio, 1 / r.time_ratio) <= out_.worst_factor()) continue;
      out_.worst = r.error;
      out_.worst_ratio = r.time_ratio;
      out_.worst_group = g.name;
      out_.worst_schedule = r.schedule;
    }
  }
  Errors errors() {
    out_.results = absolute_.size();
    out_.intervals = widths_.size();
    out_.median = median(absolute_);  // sorts them
    for (const double e : absolute_) out_.mean += e / static_cast<double>(absolute_.size());
    out_.half_width = median(widths_);
    return out_;
  }

 private:
  Errors out_;
  static double median(std::vector<double>& values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  }
  std::vector<double> absolute_, widths_;
};

}  // namespace

Ranking ValidatedGroup::ranking() const {
  Ranking out;
  const auto count = [&](const ValidatedResult& larger, const ValidatedResult& smaller) {
    ++out.pairs;
    out.in_order += larger.predicted > smaller.predicted ? 1 : 0;
    const double longer = takes_longer(larger, smaller);
    const double probable = is_rate(measure) ? 1 - longer : longer;
    out.sure += probable >= kTie || probable <= 1 - kTie ? 1 : 0;
    out.sure_in_order += probable >= kTie ? 1 : 0;
  };
  for (const ValidatedResult& a : results)
    for (const ValidatedResult& b : results) {
      if (a.published <= 1.03 * b.published || a.problem != b.problem) continue;
      count(a, b);
    }
  // A speed-up over another schedule is itself a pair of the two.
  for (const ValidatedResult& a : results) {
    if (measure != Measure::SpeedupOver) break;
    ValidatedResult other = a;
    other.published = other.predicted = 1;
    other.noise = 0;
    other.possible.assign(a.possible.size(), 1);
    if (a.published > 1.03) count(a, other);
    if (a.published < 1 / 1.03) count(other, a);
  }
  return out;
}

std::vector<std::string> Validation::sources() const {
  std::vector<std::string> out;
  for (const ValidatedGroup& g : groups)
    if (std::ranges::find(out, g.by) == out.end()) out.push_back(g.by);
  return out;
}

Errors Validation::errors() const {
  Gathered all;
  for (const ValidatedGroup& g : groups) all.add(g);
  return all.errors();
}

Errors Validation::errors_of(const std::string& source) const {
  Gathered some;
  for (const ValidatedGroup& g : groups)
    if (g.by == source) some.add(g);
  return some.errors();
}

Errors Validation::errors_of(const SizeClass& c) const {
  Gathered some;
  for (ValidatedGroup g : groups) {
    std::erase_if(g.results, [&](const ValidatedResult& r) {
      const std::int64_t tokens = r.problem.tokens.value / r.problem.workers;
      return r.problem.decodes() || tokens < c.first || tokens >= c.end;
    });
    some.add(g);
  }
  return some.errors();
}

Errors Validation::errors_of(LinkClass c) const {
  Gathered some;
  for (ValidatedGroup g : groups) {
    std::erase_if(g.results, [&](const ValidatedResult& r) { return r.links != c; });
    some.add(g);
  }
  return some.errors();
}

const char* to_text(LinkClass c) {
  switch (c) {
    case LinkClass::OneDevice:
      return "one device";
    case LinkClass::NvLink:
      return "a node, NVLink";
    case LinkClass::Pcie:
      return "a node, PCIe";
    case LinkClass::Network:
      break;
  }
  return "several nodes";
}

Errors errors_of(const ValidatedGroup& g) {
  Gathered one;
  one.add(g);
  return one.errors();
}

Validation validate(const Measurements& measured, const std::function<void()>& each,
                    unsigned threads) {
  Validation out;
  out.excluded = measured.excluded;
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const MeasuredGroup& g : measured.groups) {
    for (std::size_t i = 0; i < g.results.size(); ++i) places.emplace_back(out.groups.size(), i);
    out.groups.push_back(
        {g.name, g.by, g.source, g.why, g.measure, g.machine.name, g.order_only, {}});
    out.groups.back().results.resize(g.results.size());
  }
  const auto one = [&](std::size_t i) {
    const auto [group, result] = places[i];
    const MeasuredGroup& g = measured.groups[group];
    try {
      out.groups[group].results[result] = validated(g.results[result], g);
    } catch (const Error& e) {
      fail("{}:{}: {}", g.file, g.results[result].line, e.what());
    }
    if (each) each();
  };
  in_parallel(places.size(), one, threads);
  return out;
}

}  // namespace ringsched
