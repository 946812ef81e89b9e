#include "measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan_summary.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/stolen_time.hpp"
#include "ringsched/scheduler/words.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

double ratio(Picoseconds a, Picoseconds b) {
  return b.value > 0 ? static_cast<double>(a.value) / static_cast<double>(b.value) : 1;
}

// "7.0x too long", "3.1% too short"
std::string how_wrong(Picoseconds predicted, Picoseconds measured) {
  const double over = ratio(predicted, measured);
  const double factor = over >= 1 ? over : 1 / over;
  if (factor < 1.0005) return "right";
  return fmt::format("{} too {}",
                     factor < 2 ? fmt::format("{:.1f}%", 100 * std::abs(over - 1))
                                : fmt::format("{:.1f}x", factor),
                     over > 1 ? "long" : "short");
}

// "111-116 ms", "999 us to 1.20 ms"
std::string range(Picoseconds least, Picoseconds most) {
  const std::string from = duration(least), to = duration(most);
  const std::size_t unit = from.find(' ');
  return from.substr(unit) == to.substr(to.find(' ')) ? from.substr(0, unit) + "-" + to
                                                      : from + " to " + to;
}

std::string number(double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; }

std::string check_table(const std::vector<CheckedResults>& checked) {
  std::vector<std::vector<std::string>> rows = {
      {"check", "rows", "largest error", "relative", "error / allowed", ""}};
  for (const CheckedResults& c : checked)
    rows.push_back(
        {c.name,
         c.rows < c.there ? fmt::format("{} of {}, random", grouped(c.rows), grouped(c.there))
                          : fmt::format("all {}", grouped(c.rows)),
         fmt::format("{:.2g}", c.largest_error), fmt::format("{:.1g}", c.relative_error()),
         fmt::format("{:.2g}", c.of_bound), c.holds() ? "good" : "WRONG, worst at " + c.worst});
  return table(rows);
}

// With many runs, the median one may have been dropped before it is known to be the median.
bool is_near(const Measured& m) { return !m.fastest && m.times.makespan != m.median; }

std::string reported(const Measured& m) {
  return m.fastest ? "fastest" : is_near(m) ? "nearest to the median" : "median";
}

// What to know about the figures above: how many runs, which machine, whose clocks.
std::string circumstances(const Measurement& m) {
  std::string out;
  if (m.run.makespans.size() > 1) {
    const auto [least, most] = std::minmax_element(m.run.makespans.begin(), m.run.makespans.end());
    out += fmt::format("({} of {} runs, which took {}{})\n", reported(m.run),
                       m.run.makespans.size(), range(*least, *most),
                       is_near(m.run) ? fmt::format("; median {}", duration(m.run.median)) : "");
  }
  if (m.prediction != nullptr) {
    const Machine& machine = m.prediction->study.setup.machine;
    out += fmt::format("(predicted for {}: {}{})\n", machine.name, machine.summary,
                       m.prediction->figures.empty() ? "" : "; with " + m.prediction->figures);
  }
  if (m.run.clock_error.count() > 0)
    out += fmt::format("(process clocks agree within {}; drift of up to {:.2g} ppm was removed)\n",
                       duration({1000 * m.run.clock_error.count()}), 1e6 * m.run.clock_drift);
  if (m.run.stolen >= kMuchStolen)
    out += fmt::format("(other virtual machines on this host took {} of the CPU time)\n",
                       percent(m.run.stolen));
  return out;
}

}  // namespace

std::string measurement_text(const Measurement& m) {
  const RunTimes& t = m.run.times;
  std::string out = fmt::format("{}\n{}\n{}\n", on_terminal_lines(headline(m.proved.plan), 2),
                                on_terminal_lines("on " + m.run.where, 2),
                                m.run.kernels.empty() ? "" : m.run.kernels + "\n");
  if (!m.run.exchanges.empty()) out.insert(out.size() - 1, m.run.exchanges + "\n");
  std::vector<std::vector<std::string>> rows = {{"", std::string(to_text(m.run.timeline.source))}};
  const bool beside = m.prediction != nullptr;
  if (beside) {
    rows[0].push_back("predicted");
    rows[0].push_back("the prediction is");
  }
  const auto row = [&](const char* what, std::string measured, std::string predicted,
                       std::string difference) {
    rows.push_back({what, std::move(measured)});
    if (beside) {
      rows.back().push_back(std::move(predicted));
      rows.back().push_back(std::move(difference));
    }
  };
  const RunTimes none;
  const RunTimes& p = beside ? m.prediction->study.report : none;
  const auto points = [](double a, double b) {
    const double too_high = 100 * (b - a);
    return std::abs(too_high) < 0.05 ? std::string("right")
                                     : fmt::format("{:.1f} points too {}", std::abs(too_high),
                                                   too_high > 0 ? "high" : "low");
  };
  row("makespan", duration(t.makespan), duration(p.makespan), how_wrong(p.makespan, t.makespan));
  row("idle", percent(t.idle_fraction), percent(p.idle_fraction),
      points(t.idle_fraction, p.idle_fraction));
  row("overlap", percent(t.overlap_fraction), percent(p.overlap_fraction),
      points(t.overlap_fraction, p.overlap_fraction));
  row("exposed", duration(t.exposed_communication), duration(p.exposed_communication), "");
  row("memory", human(m.run.memory), beside ? human(m.proved.peak) : "", "");
  out += table(rows);
  out += circumstances(m);
  out += "\n" + worker_table(t);
  if (m.run.in_turns) out += turns_note(m.proved.plan.problem.workers, usable_cores());
  if (m.run.sharing > 1)
    out += fmt::format(
        "({} processes compete for the cores of this machine; predictions assume one process)\n",
        m.run.sharing);
  if (!m.run.checked.empty()) out += "\n" + check_table(m.run.checked);
  return out;
}

std::string measurement_json(const Measurement& m) {
  const RunTimes& t = m.run.times;
  std::string out = fmt::format(
      "{{\n  \"schedule\": \"{}\",\n  \"plan_hash\": \"{}\",\n  \"workers\": {},\n  \"tokens\": "
      "{},\n",
      escaped(m.run.timeline.schedule), escaped(m.run.timeline.plan_hash),
      m.run.timeline.problem.workers, m.run.timeline.problem.tokens.value);
  const auto field = [&](const char* name, const std::string& value) {
    out += fmt::format("  \"{}\": {},\n", name, value);
  };
  field("where", fmt::format("\"{}\"", escaped(m.run.where)));
  if (!m.run.kernels.empty()) field("kernels", fmt::format("\"{}\"", escaped(m.run.kernels)));
  if (!m.run.exchanges.empty()) field("exchanges", fmt::format("\"{}\"", m.run.exchanges));
  field("makespan_us", microseconds(t.makespan));
  field("idle_fraction", number(t.idle_fraction));
  field("hta_idle_fraction", number(t.hta_idle_fraction));
  field("overlap_fraction", number(t.overlap_fraction));
  field("hta_overlap_fraction", number(t.hta_overlap_fraction));
  field("exposed_communication_us", microseconds(t.exposed_communication));
  field("memory_bytes", fmt::format("{}", m.run.memory.value));
  field("peak_bytes", fmt::format("{}", m.proved.peak.value));
  std::string all;
  for (const Picoseconds x : m.run.makespans) all += (all.empty() ? "" : ", ") + microseconds(x);
  field("runs_us", "[" + all + "]");
  field("median_us", microseconds(m.run.median));
  field("reported", fmt::format("\"{}\"", m.run.fastest    ? "fastest"
                                          : is_near(m.run) ? "nearest to the median"
                                                           : "median"));
  field("transport", fmt::format("\"{}\"", m.run.transport));
  field("processes", fmt::format("{}", m.run.launch.size));
  if (!m.run.launch.launcher.empty()) {
    field("launcher", fmt::format("\"{}\"", escaped(m.run.launch.launcher)));
    field("launched_by", fmt::format("\"{}\"", escaped(m.run.launch.found)));
  }
  field("stolen_fraction", number(m.run.stolen));
  field("clock_error_us", number(static_cast<double>(m.run.clock_error.count()) / 1e3));
  field("clock_drift_ppm", number(1e6 * m.run.clock_drift));
  if (m.prediction) {
    const Report& p = m.prediction->study.report;
    field(
        "predicted",
        fmt::format("{{\"machine\": \"{}\", \"conditions\": \"{}\", \"makespan_us\": {}, "
                    "\"idle_fraction\": {}, "
                    "\"overlap_fraction\": {}, \"exposed_communication_us\": {}}}",
                    escaped(m.prediction->study.setup.machine.name), escaped(m.prediction->figures),
                    microseconds(p.makespan), number(p.idle_fraction), number(p.overlap_fraction),
                    microseconds(p.exposed_communication)));
  }
  std::string checked;
  for (const CheckedResults& c : m.run.checked)
    checked += fmt::format(
        "{}\n    {{\"name\": \"{}\", \"rows\": {}, \"rows_in_all\": {}, \"largest_error\": {}, "
        "\"relative_error\": {}, "
        "\"of_bound\": {}, \"holds\": {}}}",
        checked.empty() ? "" : ",", c.name, c.rows, c.there, number(c.largest_error),
        number(c.relative_error()), number(c.of_bound), c.holds());
  if (!checked.empty()) field("check", "[" + checked + "\n  ]");
  return out + "  \"by_worker\": " + workers_json(t) + "\n}\n";
}

}  // namespace ringsched
