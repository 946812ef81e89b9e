#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan_summary.hpp"
#include "prediction.hpp"
#include "ringsched/simulator/spread.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kShownWorkers = 16;
constexpr std::size_t kBarCells = 32;

double share(Picoseconds part, Picoseconds whole) {
  return whole.value > 0 ? static_cast<double>(part.value) / static_cast<double>(whole.value) : 0;
}
std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }

// Cells of a bar for four parts that add up to the whole, none lost to rounding.
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

std::string times(Picoseconds a, Picoseconds b) {
  return b.value > 0 ? fmt::format("{:.2f}x", share(a, b)) : "-";
}

std::string change_line(const Answer& a, Picoseconds before) {
  const double saved = 1 - share(a.makespan, before);
  if (std::abs(saved) < 0.0005) return fmt::format("{} changes nothing", a.change);
  return fmt::format("{} {} {}", a.change, percent(std::abs(saved)), saved > 0 ? "less" : "more");
}

}  // namespace

std::string worker_table(const RunTimes& r) {
  std::vector<std::vector<std::string>> rows = {
      {"worker", "█ attend ▓ overhead ░ wait · out of work", "attend", "overhead", "wait",
       "out of work", "moving", "hidden"}};
  const std::size_t shown = std::min(kShownWorkers, r.workers.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const WorkerTimes& w = r.workers[i];
    rows.push_back({fmt::format("{}", i), bar(w, r.makespan),
                    percent(share(w.attending, r.makespan)), percent(share(w.overhead, r.makespan)),
                    percent(share(w.waiting, r.makespan)),
                    percent(share(w.out_of_work, r.makespan)), duration(w.transferring),
                    w.transferring.value > 0 ? percent(share(w.hidden, w.transferring)) : "-"});
  }
  std::string out = table(rows);
  if (shown < r.workers.size())
    out += fmt::format("(the first {} of {} workers)\n", shown, r.workers.size());
  return out;
}

namespace {

std::string path_line(const PathShare& p) {
  std::string out;
  const auto part = [&](const char* what, Picoseconds ps) {
    if (ps.value > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, duration(ps));
  };
  part("attending", p.attending);
  part("overhead", p.overhead);
  part("wire", p.wire);
  part("start-up", p.startup);
  part("slowed by others", p.contention);
  part("waiting", p.waiting);
  return out.empty() ? "nothing" : out;
}

bool moved(const Report& r) {
  return std::any_of(r.workers.begin(), r.workers.end(),
                     [](const WorkerTimes& w) { return w.transferring.value > 0; });
}

std::string bound_line(const Report& r) {
  const LowerBounds& b = r.bounds;
  const Picoseconds best = b.best();
  const char* which = best == b.work     ? "all work, spread evenly"
                      : best == b.worker ? "the busiest worker's own work"
                      : best == b.chain  ? "the longest chain of tasks"
                                         : "the bytes over the busiest link";
  return fmt::format("{} ({}); this is {} above", duration(best), which,
                     percent(best.value > 0 ? share(r.makespan, best) - 1 : 0));
}

std::string path_table(const Prediction& p) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "kind", "worker", "step", "start", "took", "waited for"}};
  bool sent = false;  // the step before was a send: of the same group as what was waited for
  for (const PathStep& s : p.study.report.path_steps) {
    const Task& t = p.proved.plan.tasks[s.task.value];
    const bool group = sent && s.cause == Cause::Data && !is_transfer(t.kind);
    sent = t.kind == TaskKind::Send;
    rows.push_back({fmt::format("{}", s.task.value), std::string(to_text(t.kind)),
                    fmt::format("{}", t.worker_index), fmt::format("{}", t.step), duration(s.start),
                    duration(s.end - s.start),
                    group ? "data, whose group was complete" : to_text(s.cause)});
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
    case Cause::None:
    case Cause::Member:
      break;
  }
  return "nothing";
}

std::string prediction_text(const Prediction& p, const std::vector<Answer>& answers,
                            const std::vector<Answer>& better, bool path) {
  const Report& r = p.study.report;
  std::string out = fmt::format("{}\non {}: {}\n{}\n", headline(p.proved.plan),
                                p.study.setup.machine.name, p.study.setup.machine.summary,
                                p.figures.empty() ? "" : "with " + p.figures + "\n");
  const auto line = [&](const char* what, const std::string& text) {
    out += fmt::format("{:<10} {}\n", what, text);
  };
  line("makespan",
       fmt::format("{}   {} as fast as one device{}", duration(r.makespan),
                   times(p.study.one_device, r.makespan),
                   p.study.ring ? fmt::format(", {} as ring", times(*p.study.ring, r.makespan))
                                : std::string()));
  line("idle", fmt::format("{}   ({} by HTA's definition)", percent(r.idle_fraction),
                           percent(r.hta_idle_fraction)));
  if (moved(r))
    line("overlap",
         fmt::format("{}   ({} by HTA's); {} exposed per worker", percent(r.overlap_fraction),
                     percent(r.hta_overlap_fraction), duration(r.exposed_communication)));
  else
    line("overlap", "communication takes no time");
  line("memory", human(p.proved.peak) + " on the fullest worker");
  line("bound", bound_line(r));
  line("path", path_line(r.path));
  if (!r.links.empty())
    line("links",
         fmt::format("busiest: {}, {}, {} used", p.study.workload.network.name(r.links[0].link),
                     human(Bytes{static_cast<std::int64_t>(r.links[0].bytes)}),
                     percent(r.links[0].utilisation)));
  out += "\n" + worker_table(r);
  if (p.study.workload.turns &&
      p.study.workload.network.workers_per_device() > p.study.workload.concurrency)
    out +=
        "(workers take turns on the cores: wait contains the wait for a turn, and so does idle)\n";
  if (!p.study.makespans.empty()) {
    const auto at = [&](double x) { return duration(percentile(p.study.makespans, x)); };
    out += fmt::format("\n{} runs   5 % {}   half {}   95 % {}   worst {}\n",
                       p.study.makespans.size(), at(5), at(50), at(95), at(100));
  }
  if (path) out += "\n" + path_table(p);
  if (!better.empty() || !answers.empty()) out += "\n";
  if (!better.empty()) {
    std::string best;
    for (const Answer& a : better)  // another order of messages can make it slower
      if (a.makespan <= r.makespan) best += (best.empty() ? "" : ", ") + change_line(a, r.makespan);
    if (!best.empty()) line("faster by", best);
  }
  for (const Answer& a : answers)
    line("what if", fmt::format("{}: {}, {}", a.change, duration(a.makespan),
                                change_line(a, r.makespan).substr(a.change.size() + 1)));
  return out;
}

}  // namespace ringsched
