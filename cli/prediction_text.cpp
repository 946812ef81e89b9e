#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "plan_summary.hpp"
#include "prediction.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/simulator/uncertainty.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kShownWorkers = 16;
constexpr std::size_t kBarCells = 18;

double share(Picoseconds part, Picoseconds whole) {
  return whole.value > 0 ? static_cast<double>(part.value) / static_cast<double>(whole.value) : 0;
}
// Cells of a bar for four parts that add up to the whole, without losing any to rounding.
std::string bar(const WorkerTimes& w, Picoseconds makespan) {
  static constexpr const char* cells[] = {"█", "▓", "░", "·"};
  const Picoseconds parts[] = {w.attending, w.overhead, w.waiting, w.out_of_work};
  std::string out;
  Picoseconds sum;
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    sum += parts[i];
    const auto upto = static_cast<std::size_t>(std::lround(share(sum, makespan) * kBarCells));
    for (; drawn < upto; ++drawn) out += cells[i];
  }
  return out;
}

// The unit of the times in the table.
WorkerTimes mean_of(std::span<const WorkerTimes> workers) {
  WorkerTimes mean;
  for (const auto part :
       {&WorkerTimes::attending, &WorkerTimes::overhead, &WorkerTimes::waiting,
        &WorkerTimes::out_of_work, &WorkerTimes::transferring, &WorkerTimes::hidden}) {
    for (const WorkerTimes& w : workers) mean.*part += w.*part;
    (mean.*part).value /= static_cast<std::int64_t>(workers.size());
  }
  return mean;
}

std::string times(Picoseconds a, Picoseconds b) {
  return b.value > 0 ? fmt::format("{:.2f}x", share(a, b)) : "-";
}

// "-43.1%", "no change"; "3.2x" from twice as long on
std::string saving(Picoseconds after, Picoseconds before) {
  const double change = share(after, before) - 1;
  return std::abs(change) < 0.0005 ? "no change"
         : change < 1              ? fmt::format("{:+.1f}%", 100 * change)
                                   : fmt::format("{:.1f}x", 1 + change);
}

// Each line after the first.
std::string indented(std::string_view lines, std::size_t indent) {
  std::string out;
  for (const char c : lines) out += c == '\n' ? "\n" + std::string(indent, ' ') : std::string(1, c);
  return out;
}

}  // namespace

std::string turns_note(std::uint32_t workers, std::uint32_t cores) {
  return fmt::format("({} share {}; \"wait\" and \"idle\" include waiting for a core)\n",
                     counted(workers, "worker"), counted(cores, "core"));
}

std::string report_line(std::string_view label, std::string_view text) {
  constexpr std::size_t indent = 17, widest = 80, narrowest = 40;
  const std::size_t terminal = terminal_columns();
  const std::size_t columns = terminal == 0 ? widest : std::clamp(terminal, narrowest, widest);
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",;"), text.size() - 1) + 1;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  std::string all;
  bool wide = false;
  std::size_t used = 0;
  for (const std::string& part : parts) {
    const std::size_t blank = part.find_first_not_of(' ');
    wide = wide || part.size() - blank > columns - indent;
    const bool breaks = used > 0 && used + part.size() > columns - indent;
    all += breaks ? "\n" + part.substr(blank) : part;
    used = breaks ? part.size() - blank : used + part.size();
  }
  if (wide) {
    std::ranges::replace(all, '\n', ' ');
    all = in_lines(all, 0, columns - indent);
  }
  return fmt::format("{:<{}}{}\n", label, indent, indented(all, indent));
}

// Of many workers, each row shows the mean of a band of neighbours.
std::string worker_table(const RunTimes& r, TimeUnit unit) {
  std::vector<std::vector<std::string>> rows = {
      {"worker", "share of time", "attend", "overhead", "wait", "done", "transfer", "hidden"}};
  const std::size_t all = r.workers.size();
  const std::size_t in_band = (all + kShownWorkers - 1) / kShownWorkers;
  for (std::size_t first = 0; first < all; first += in_band) {
    const std::size_t last = std::min(first + in_band, all) - 1;
    const WorkerTimes w = mean_of(std::span(r.workers).subspan(first, last - first + 1));
    rows.push_back({first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last),
                    bar(w, r.makespan), percent(share(w.attending, r.makespan)),
                    percent(share(w.overhead, r.makespan)), percent(share(w.waiting, r.makespan)),
                    percent(share(w.out_of_work, r.makespan)), duration(w.transferring, unit),
                    w.transferring.value > 0 ? percent(share(w.hidden, w.transferring)) : "-"});
  }
  std::string out = table(rows) + "        █ attend  ▓ overhead  ░ wait  · done\n";
  if (in_band > 1)
    out += on_terminal_lines(
               fmt::format("(each row is the mean of {} workers; --gantt FILE draws all {})",
                           all % in_band == 0 ? fmt::format("{}", in_band)
                                              : fmt::format("up to {}", in_band),
                           all),
               1) +
           "\n";
  return for_locale(out);
}

namespace {

// A plan for one node by default, on a machine of several, may be a mistake.
std::string where(const Prediction& p) {
  const Machine& m = p.study.setup.machine;
  const std::uint32_t sharing = p.study.workload.network.workers_per_device();
  const std::uint32_t used = (p.proved.plan.problem.workers + sharing - 1) / sharing;
  return fmt::format("on {}: {}{}", m.name, m.summary,
                     m.nodes > 1 && used < m.devices()
                         ? fmt::format("; uses {} of {} devices (--workers)", used, m.devices())
                         : "");
}

std::string path_line(const PathShare& p, Picoseconds makespan, TimeUnit unit, bool by_channels) {
  std::string out;
  const auto part = [&](const char* what, Picoseconds ps) {
    if (ps.value > makespan.value / 1'000'000)  // less is rounding
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, duration(ps, unit));
  };
  part("attend", p.attending);
  part("overhead", p.overhead);
  part("transfer", p.wire);
  part("start-up", p.startup);
  part(by_channels ? "few NCCL channels" : "below link speed", p.below_speed);
  part("contention", p.contention);
  part("host", p.host);
  part("wait", p.waiting);
  return out.empty() ? "nothing" : out;
}

// How long workers wait for their host, on average; empty if none does.
std::string host_line(const Report& r, TimeUnit unit) {
  double sum = 0;
  for (const WorkerTimes& w : r.workers) sum += static_cast<double>(w.waiting_for_host.value);
  const Picoseconds each{static_cast<std::int64_t>(sum / static_cast<double>(r.workers.size()))};
  if (each.value == 0) return "";
  return fmt::format("workers wait for it {} of the makespan, {} each",
                     percent(share(each, r.makespan)), duration(each, unit));
}

bool moved(const Report& r) {
  return std::any_of(r.workers.begin(), r.workers.end(),
                     [](const WorkerTimes& w) { return w.transferring.value > 0; });
}

std::string bound_line(const Report& r, TimeUnit unit) {
  const LowerBounds& b = r.bounds;
  const Picoseconds best = b.best();
  const char* which = best == b.work     ? "all work spread evenly"
                      : best == b.worker ? "busiest worker"
                      : best == b.chain  ? "longest chain of tasks"
                                         : "busiest link";
  const double above = best.value > 0 ? share(r.makespan, best) - 1 : 0;
  return fmt::format("{} ({}); the run {}", duration(best, unit), which,
                     above < 0.0005 ? "reaches it" : "is " + percent(above) + " above it");
}

std::string price_of(const ExchangeReport& e, const Machine& m) {
  if (e.calls > 1)
    return fmt::format(
        "from link speeds, as {} calls: no library merges partial softmax results in one", e.calls);
  if (e.row == ExchangeCost::kLinks) return "from link speeds; the profile has no table";
  const std::uint32_t measured = m.collectives[e.row].per_node;
  return measured == e.per_node ? "from the profile's table"
                                : fmt::format("from the profile's table for {}", measured);
}

// What priced the exchanges, and which of them the profile has no figures for.
std::string exchange_line(const Prediction& p) {
  if (!p.proved.lowered.empty())
    return lowered_line(p.proved.lowered, p.proved.exchanges) + "; timed from link speeds";
  const Machine& m = p.study.setup.machine;
  if (m.ideal) return "take no time";
  std::string out;
  for (const ExchangeReport& e : p.study.report.exchanges)
    out += fmt::format("{}{} among {}{} ({})", out.empty() ? "" : "; ",
                       counted(e.count, to_text(e.form)), counted(e.members, "worker"),
                       e.nodes > 1 ? fmt::format(" on {}", counted(e.nodes, "node")) : "",
                       price_of(e, m));
  return out;
}

// "; does not fit: a device has 80 GiB", or nothing.
std::string too_large(const Prediction& p) {
  if (memory_fits(p.study, p.proved.peak).value_or(true)) return "";
  const std::uint32_t sharing = p.study.workload.network.workers_per_device();
  return fmt::format("; does not fit: a device has {:g} GiB{}", p.study.setup.machine.memory_gb,
                     sharing > 1 ? fmt::format(" for {}", counted(sharing, "worker")) : "");
}

// "attention kernels: 1.21x the profile's time; the prediction was 10.2 ms; ..."
std::string fit_text(const Fit& f) {
  return fmt::format(
      "{}: {:.3g}x the profile's time; the prediction was {}; the change is {:.3g} times the "
      "uncertainty of {:g}%, so {}{}",
      f.figure, f.factor, duration(f.predicted, TimeUnit::Seconds), f.sigmas(), 100 * f.spread,
      f.within_spread()
          ? f.left < f.spread
                ? fmt::format("it is plausible; {:.2g}% of uncertainty is left", 100 * f.left)
                : "it is plausible"
          : "the cause is probably elsewhere: check the sizes and the mask, "
            "--kernels and --software",
      f.too_weak.empty() ? "" : "; not enough alone: " + f.too_weak);
}

// In a table, where "lane" alone would not say enough.
const char* waited_for(Cause::Kind cause, bool group, bool gpu) {
  if (group) return "its input (sent and received as one group)";
  switch (cause) {
    case Cause::Data:
      return "its input";
    case Cause::Lane:
      return "previous task";
    case Cause::Control:
      return "free buffers";
    case Cause::Kernel:
      return gpu ? "free SMs" : "a free core";
    case Cause::Host:
      return "its launch";
    case Cause::None:
    case Cause::Member:
      break;
  }
  return to_text(cause);
}

std::string path_table(const Prediction& p) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "kind", "worker", "step", "start", "took", "waited for"}};
  bool sent = false;  // the step before was a send: of the same group as what was waited for
  for (const PathStep& s : p.study.report.path_steps) {
    const Plan& plan = p.proved.plan;
    const Task& t = plan.tasks[s.task.value];
    const bool group = sent && s.cause == Cause::Data && !is_transfer(t.kind);
    sent = is_send(t.kind);
    const std::string_view kind = is_exchange(t.kind) ? to_text(form_of(plan, plan.exchange(t)))
                                  : t.kind == TaskKind::Round ? "rounding"
                                                              : to_text(t.kind);
    rows.push_back({fmt::format("{}", s.task.value), std::string(kind),
                    fmt::format("{}", t.worker_index), fmt::format("{}", t.step),
                    duration(s.start, p.unit()), duration(s.end - s.start, p.unit()),
                    waited_for(s.cause, group, p.study.setup.machine.sms > 0)});
  }
  return table(rows);
}

}  // namespace

const char* to_text(Cause::Kind cause) {
  switch (cause) {
    case Cause::Data:
      return "data";
    case Cause::Lane:
      return "lane";
    case Cause::Control:
      return "buffers";
    case Cause::Kernel:
      return "kernel";
    case Cause::Host:
      return "host";
    case Cause::None:
    case Cause::Member:
      break;
  }
  return "nothing";
}

namespace {

// Do GPUs get tasks in no time, although they are so short that a library's host would be slower?
bool is_short_without_host(const Prediction& p) {
  constexpr double kPerTask = 100e6;  // ps
  const Machine& m = p.study.setup.machine;
  const Plan& plan = p.proved.plan;
  return !m.ideal && m.sms > 0 && m.software.host.issues_in_no_time() &&
         static_cast<double>(p.study.report.makespan.value) * plan.problem.workers <
             kPerTask * static_cast<double>(plan.tasks.size());
}

}  // namespace

std::string prediction_text(const Prediction& p, const std::vector<Answer>& answers,
                            const std::vector<Answer>& better, bool path) {
  const Report& r = p.study.report;
  const TimeUnit unit = p.unit();
  const WorkerId last{p.proved.plan.problem.workers - 1};
  const bool by_channels =
      has_channels(p.study.setup.machine.fabric) && p.study.workload.network.node_of(last) == 0;
  std::string out = fmt::format(
      "{}\n{}\n{}\n", on_terminal_lines(headline(p.proved.plan), 2), on_terminal_lines(where(p), 2),
      p.figures.empty() ? "" : on_terminal_lines("with " + p.figures, 2) + "\n");
  const auto line = [&](std::string_view what, const std::string& text) {
    out += report_line(what, text);
  };
  line("makespan",
       fmt::format("{}; {} as fast as one device{}", duration(r.makespan, unit),
                   times(p.study.one_device, r.makespan),
                   p.study.ring
                       ? fmt::format(", {} as fast as ring{}", times(*p.study.ring, r.makespan),
                                     p.proved.plan.problem.decodes() ? "-decode" : "")
                       : ""));
  if (p.fit) line("calibrated", fit_text(*p.fit));
  if (const auto sure = interval(p.study.possible, r.makespan))
    line("80% interval", fmt::format("{} to {}, given uncertain machine parameters",
                                     duration(sure->low, unit), duration(sure->high, unit)));
  if (const auto& what = p.study.workload.extrapolated; !what.empty())
    line("extrapolated", fmt::format("{}. This widens the interval", fmt::join(what, "; ")));
  line("idle", percent(r.idle_fraction));
  if (moved(r))
    line("overlap", fmt::format("{}; {} exposed per worker", percent(r.overlap_fraction),
                                duration(r.exposed_communication, unit)));
  else
    line("overlap", "communication takes no time");
  if (const std::string host = host_line(r, unit); !host.empty()) line("host", host);
  if (is_short_without_host(p))
    line("host",
         "assumed to take no time, but tasks this short usually wait for it; to model a "
         "PyTorch library's: --software NAME");
  line("memory", "at most " + human(p.proved.peak) + " per worker" + too_large(p));
  line("lower bound", bound_line(r, unit));
  if (const std::string_view what = attends_bound_by(p.proved.plan, p.study.setup.machine);
      !what.empty())
    line("attends", what == "memory" ? "limited by memory bandwidth" : "limited by computing");
  line("critical path", path_line(r.path, r.makespan, unit, by_channels));
  if (!r.links.empty())
    line("busiest link",
         fmt::format("{}: {}, {} used", p.study.workload.network.name(r.links[0].link),
                     human(Bytes{static_cast<std::int64_t>(r.links[0].bytes)}),
                     percent(r.links[0].utilisation)));
  if (!r.exchanges.empty() || !p.proved.lowered.empty()) line("exchanges", exchange_line(p));
  if (!p.study.makespans.empty()) {
    const auto at = [&](double x) { return duration(percentile(p.study.makespans, x), unit); };
    line(fmt::format("{} runs", p.study.makespans.size()),
         fmt::format("median {}, 5th percentile {}, 95th {}, worst {}", at(50), at(5), at(95),
                     at(100)));
  }
  if (!better.empty()) {
    std::string best;
    for (const Answer& a : better)  // another order of messages can make it slower
      if (a.makespan <= r.makespan)
        best += fmt::format("{}{}: {}", best.empty() ? "" : ", ", change_in_words(a.change),
                            saving(a.makespan, r.makespan));
    if (!best.empty()) line("what would help", best);
  }
  for (const Answer& a : answers)
    line("what if", fmt::format("{}: {} ({})", a.change, duration(a.makespan, unit),
                                saving(a.makespan, r.makespan)));
  out += "\n" + worker_table(r, unit);
  const std::uint32_t sharing = p.study.workload.network.workers_per_device();
  if (p.study.workload.turns && sharing > p.study.workload.concurrency)
    out += turns_note(p.proved.plan.problem.workers, p.study.workload.concurrency);
  if (path) out += "\n" + path_table(p);
  return out;
}

}  // namespace ringsched
