#include "sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

#include "prediction.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/simulator/as_run.hpp"
#include "ringsched/simulator/uncertainty.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

// Identifies the figures of a machine: its name for a built-in profile. A user's own files may
// change, and those that they build on, so a hash of all figures is added.
std::string figures_of(const Machine& machine, bool own, std::string others) {
  if (!own) return others;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : to_toml(machine))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}{}profile {:08x}", others, others.empty() ? "" : "; ",
                     static_cast<std::uint32_t>(hash ^ hash >> 32));
}

// The plain rings of `usp` leave workers idle under most masks, which would speak against it.
// What `all` adds: hybrids with balanced rings, which their defaults are not.
constexpr const char* kUspBalanced = "usp:ring=zigzag";
constexpr const char* kDoubleRingBalanced = "double-ring:ring=zigzag";
constexpr const char* kAllGatherBalanced = "all-gather:shares=zigzag";
// And for packed documents.
constexpr const char* kZigzagOfDocuments = "zigzag:shares=documents";
constexpr const char* kAllGatherOfDocuments = "all-gather:shares=documents";

std::vector<std::string> all_names(bool decodes) {
  std::vector<std::string> out;
  for (const Schedule& s : decodes ? decode_schedules() : schedules()) {
    out.emplace_back(s.name);
    if (s.name == "usp") out.emplace_back(kUspBalanced);
    if (s.name == "double-ring") out.emplace_back(kDoubleRingBalanced);
    if (s.name == "zigzag") out.emplace_back(kZigzagOfDocuments);
    if (s.name == "all-gather") {
      out.emplace_back(kAllGatherBalanced);
      out.emplace_back(kAllGatherOfDocuments);
    }
  }
  return out;
}

// "all" stands for all those that the others do not name.
std::vector<std::string> names_of(const SweepQuestion& c) {
  std::vector<std::string> given = list_of(c.schedules, "--schedule"), out;
  for (const std::string& name : given) {
    if (name != "all") {
      out.push_back(name);
      continue;
    }
    for (std::string& one : all_names(c.rest.decodes()))
      if (std::ranges::find(given, one) == given.end()) out.push_back(std::move(one));
  }
  return out;
}

void set_times(const Report& r, SweepRow& row) {
  const auto mean = [&](Picoseconds WorkerTimes::*part) {
    std::int64_t sum = 0;
    for (const WorkerTimes& w : r.workers) sum += (w.*part).value;
    return microseconds({sum / static_cast<std::int64_t>(r.workers.size())});
  };
  row.attending_us = mean(&WorkerTimes::attending);
  row.overhead_us = mean(&WorkerTimes::overhead);
  row.waiting_us = mean(&WorkerTimes::waiting);
  row.waiting_for_host_us = mean(&WorkerTimes::waiting_for_host);
  row.out_of_work_us = mean(&WorkerTimes::out_of_work);
  row.bound_us = microseconds(r.bounds.best());
}

}  // namespace

void SweepQuestion::add_to(CLI::App& app) {
  const auto list = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)
        ->type_name("LIST")
        ->group("Lists (separate the values with commas)");
  };
  list("-s,--schedule", schedules, "schedules, or 'all'; see 'ringsched schedules' (default all)");
  list("-w,--workers", workers,
       "numbers of workers, e.g. 4,8,16 (default: one per device of the machine; 8 with "
       "--machine ideal)");
  list("-t,--tokens", tokens, "sequence lengths, e.g. 32K,64K (default 8K per worker)");
  list("--heads", heads, "query heads (default 32)");
  list("-m,--machine", machines,
       "machines; see 'ringsched machines', or give FILE.toml (default ideal)");
  list("--overlap", overlaps,
       "how far communication may run ahead of computation: none, prefetch, unbounded (default "
       "prefetch)");
  rest.add_rest_to(app);
  conditions.add_figures_to(app);
  conditions.add_conditions_to(app);
}

std::vector<SweepCell> cells_of(const SweepQuestion& c) {
  std::vector<SweepCell> cells;
  bool any_varies = false;
  const std::vector<std::string> names = names_of(c);
  const auto asked_for = [&, given = list_of(c.schedules, "--schedule")](const std::string& name) {
    return std::ranges::find(given, name) != given.end();
  };
  std::vector<std::string> tokens(1), workers(1);  // the usual ones
  if (!c.tokens.empty()) tokens = list_of(c.tokens, "--tokens");
  if (!c.workers.empty()) workers = list_of(c.workers, "--workers");
  for (const std::string& machine_name : list_of(c.machines, "--machine")) {
    const Machine machine = c.conditions.machine(machine_name);
    const std::string figures =
        figures_of(machine, is_machine_file(machine_name) || c.conditions.has_own_software(),
                   c.conditions.figures());
    for (const std::string& w : workers)
      for (const std::string& t : tokens)
        for (const std::string& h : list_of(c.heads, "--heads"))
          for (const std::string& s : names)
            for (const std::string& o : list_of(c.overlaps, "--overlap")) {
              SweepCell cell{c.rest.with(s, w, t, h, o).on(machine), machine, {}};
              const Schedule schedule = cell.flags.schedule();
              const Problem p = cell.flags.problem();  // refuses what makes no sense at once
              // Without a mask, plain shares are as balanced.
              if (p.mask == Mask::full() && !asked_for(s) &&
                  (s == kUspBalanced || s == kAllGatherBalanced))
                continue;
              if (p.mask.kind() != Mask::Kind::Documents && !asked_for(s) &&
                  (s == kZigzagOfDocuments || s == kAllGatherOfDocuments))
                continue;
              // Inside one node it is zigzag.
              if (s == kDoubleRingBalanced && !asked_for(s) &&
                  (p.mask == Mask::full() || machine.nodes == 1 ||
                   p.workers <= machine.devices_per_node))
                continue;
              const CommunicationLimits limits = cell.flags.limits();
              SweepRow& r = cell.row;
              r.machine = machine.name;
              r.unit_name = machine.ideal ? "blocks" : "us";
              r.schedule = schedule.name;
              r.workers = fmt::format("{}", p.workers);
              r.tokens = fmt::format("{}", p.tokens.value);
              r.heads = fmt::format("{}", p.heads);
              r.kv_heads = fmt::format("{}", p.kv_heads);
              r.head_dim = fmt::format("{}", p.head_dim);
              r.dtype = to_text(p.dtype);
              r.mask = to_text(p.mask);
              r.pass = to_text(p.pass);
              // The default problem of a schedule that decodes.
              const bool decodes = !p.decodes() && schedule.decodes();
              r.new_tokens = fmt::format("{}", decodes ? 1 : p.new_tokens.value);
              r.overlap = to_text(limits.overlap);
              if (limits.buffers > 0) r.overlap += fmt::format(" {} buffers", limits.buffers);
              r.exchanges = to_text(cell.flags.lowering());
              const Setup setup = c.conditions.setup(machine, p.workers);
              any_varies = any_varies || varies(setup.conditions);
              r.conditions = described(setup, figures);
              cells.push_back(std::move(cell));
            }
  }
  c.conditions.check_runs(any_varies);
  std::set<std::string> asked;
  for (const SweepCell& cell : cells)
    if (!asked.insert(cell.row.key()).second)
      fail("{} ({}) with {} workers on {} is given twice", cell.row.schedule, cell.row.overlap,
           cell.row.workers, cell.row.machine);
  return cells;
}

SweepRow answer(const SweepCell& cell, const SweepQuestion& c) {
  SweepRow row = cell.row;
  try {
    const ProvedPlan proved = proved_plan(cell.flags, false);  // the bar shows how far it is
    StudyOptions options;
    options.diagonal = c.conditions.diagonal();
    options.threads = 1;  // cells are the units of parallel work
    options.how_sure = true;
    const Study s =
        study(proved.plan, c.conditions.setup(cell.machine, proved.plan.problem.workers), options);
    const Report& r = s.report;
    row.makespan_us = microseconds(r.makespan);
    row.idle_fraction = fmt::format("{}", r.idle_fraction);
    row.overlap_fraction = fmt::format("{}", r.overlap_fraction);
    row.exposed_communication_us = microseconds(r.exposed_communication);
    set_times(r, row);
    row.speedup = fmt::format(
        "{}", static_cast<double>(s.one_device.value) / static_cast<double>(r.makespan.value));
    row.peak_bytes = fmt::format("{}", proved.peak.value);
    row.possible = s.possible;
    if (const auto sure = interval(s.possible, r.makespan)) {
      row.interval_low_us = microseconds(sure->low);
      row.interval_high_us = microseconds(sure->high);
    }
    row.extrapolated = fmt::format("{}", fmt::join(s.workload.extrapolated, "; "));
    if (const std::optional<bool> fits = memory_fits(s, proved.peak))
      row.fits = *fits ? "yes" : "no";
  } catch (const Error& e) {
    row.refused = e.what();
    std::replace(row.refused.begin(), row.refused.end(), '\n', ' ');
  }
  return row;
}

}  // namespace ringsched
