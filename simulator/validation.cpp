#include "ringsched/simulator/validation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernel_time.hpp"
#include "machine/toml.hpp"
#include "published.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/study.hpp"

namespace ringsched {

namespace {

std::string text_of(const toml::table& t, std::string_view key, std::string fallback = "") {
  return t[key].value_or(std::move(fallback));
}

Problem problem_of(const toml::table& t) {
  const auto count = [&](const char* key, std::int64_t fallback) {
    return static_cast<std::uint32_t>(t[key].value_or(fallback));
  };
  Problem p;
  p.workers = count("workers", 8);
  p.tokens = {t["tokens"].value_or(std::int64_t{65536})};
  p.heads = count("heads", 32);
  p.kv_heads = count("kv_heads", 8);
  p.head_dim = count("head_dim", 128);
  p.mask = parse_mask(text_of(t, "mask", "causal"));
  p.pass = parse_pass(text_of(t, "pass", "forward"));
  require_valid(p);
  return p;
}

// The same machine with links that cost nothing.
Machine without_communication(Machine m) {
  for (LinkFigures* link : {&m.fabric.link, &m.network.link}) {
    link->gb_per_s = 1e9;
    link->latency_us = 0;
    link->messages.clear();
  }
  m.fabric.core_gb_per_s = m.fabric.host_gb_per_s = 0;
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

// The makespan that a published overhead amounts to.
double published_ps(const ValidatedResult& r, double predicted_ps) {
  return predicted_ps / (1 + r.predicted) * (1 + r.published);
}

ValidatedResult predicted(const toml::table& t, const Problem& problem, const Machine& machine,
                          const std::string& quantity) {
  ValidatedResult out;
  out.schedule = text_of(t, "schedule");
  out.overlap = text_of(t, "overlap", "prefetch");
  out.published = t["published"].value<double>().value();
  const Plan plan = limit_communication(build_plan(problem, find_schedule(out.schedule)),
                                        {parse_overlap(out.overlap), 0});
  const Study s = study(plan, {machine, {}});
  const double ps = static_cast<double>(s.report.makespan.value);
  const auto ms = [](Picoseconds t_ps) { return static_cast<double>(t_ps.value) * 1e-9; };
  if (quantity == "iterations_per_s") {
    out.predicted = 1e12 / ps;
  } else if (quantity == "ms") {
    out.predicted = ps * 1e-9;
  } else if (quantity == "speedup") {
    out.predicted = static_cast<double>(s.one_device.value) / ps;
  } else if (quantity == "tflops_per_device") {
    out.predicted = flops(problem) / ps / problem.workers;
  } else if (quantity == "overhead") {
    const Picoseconds free = makespan_of(plan, {without_communication(machine), {}});
    out.predicted = ps / static_cast<double>(free.value) - 1;
  } else {
    throw std::logic_error("published.toml: there is no quantity " + quantity);
  }
  out.error = quantity == "overhead" ? (1 + out.predicted) / (1 + out.published) - 1
                                     : out.predicted / out.published - 1;
  const PathShare& path = s.report.path;
  out.impossible = quantity == "overhead" &&
                   published_ps(out, ps) < static_cast<double>(s.report.bounds.link.value);
  out.attending_ms = ms(path.attending);
  out.overhead_ms = ms(path.overhead);
  out.communication_ms = ms(path.startup + path.wire);
  out.contention_ms = ms(path.contention);
  out.waiting_ms = ms(path.waiting);
  return out;
}

}  // namespace

Ranking ValidatedGroup::ranking() const {
  Ranking out;
  for (std::size_t i = 0; i < results.size(); ++i)
    for (std::size_t j = 0; j < results.size(); ++j) {
      if (results[i].published <= 1.03 * results[j].published) continue;
      ++out.pairs;
      out.in_order += results[i].predicted > results[j].predicted ? 1 : 0;
    }
  return out;
}

namespace {

// Calls visit(error) for the results that count.
template <class Visit>
void for_each_error(const Validation& v, Visit visit) {
  for (const ValidatedGroup& g : v.groups)
    for (const ValidatedResult& r : g.results)
      if (!r.impossible && !g.order_only) visit(std::abs(r.error));
}

}  // namespace

std::size_t Validation::results() const {
  std::size_t n = 0;
  for_each_error(*this, [&](double) { ++n; });
  return n;
}

std::size_t Validation::impossible() const {
  std::size_t n = 0;
  for (const ValidatedGroup& g : groups)
    n +=
        static_cast<std::size_t>(std::ranges::count(g.results, true, &ValidatedResult::impossible));
  return n;
}

double Validation::average_error() const {
  double sum = 0;
  for_each_error(*this, [&](double error) { sum += error; });
  return sum / static_cast<double>(results());
}

double Validation::worst_error() const {
  double worst = 0;
  for_each_error(*this, [&](double error) { worst = std::max(worst, error); });
  return worst;
}

Validation validate() {
  const toml::table all = toml::parse(published_toml(), std::string_view("published.toml"));
  Validation out;
  Machine machine;
  for (const toml::node& node : *all["group"].as_array()) {
    const toml::table& t = *node.as_table();
    if (!t["same_machine"].value_or(false))
      machine = read_machine(text_of(t, "machine"), text_of(t, "name"));
    if (t.contains("software")) machine.software = find_software(text_of(t, "software"));
    ValidatedGroup g;
    g.name = text_of(t, "name");
    g.source = text_of(t, "source");
    g.quantity = text_of(t, "quantity");
    g.why = text_of(t, "why");
    g.machine = machine.name;
    g.order_only = t["order_only"].value_or(false);
    const Problem problem = problem_of(*t["problem"].as_table());
    for (const toml::node& r : *t["results"].as_array())
      g.results.push_back(predicted(*r.as_table(), problem, machine, g.quantity));
    out.groups.push_back(std::move(g));
  }
  for (const toml::node& node : *all["excluded"].as_array())
    out.excluded.push_back(
        {text_of(*node.as_table(), "what"), text_of(*node.as_table(), "reason")});
  return out;
}

}  // namespace ringsched
