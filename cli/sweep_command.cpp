#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "prediction.hpp"
#include "problem_flags.hpp"
#include "progress.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/simulator/spread.hpp"
#include "sweep_rows.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct SweepCommand {
  std::string schedules = "all", workers = "8", tokens, heads = "32", machines = "ideal",
              overlaps = "prefetch";
  ProblemFlags rest;
  MachineFlags conditions;
  std::string output, jobs = "0", format = "text";
};

struct Cell {
  ProblemFlags flags;
  Machine machine;
  SweepRow row;  // what is asked
};

std::vector<std::string> list_of(const std::string& text, const char* flag) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (;;) {
    const std::size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (out.back().empty()) fail("{} is '{}': there is nothing between two commas", flag, text);
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
}

// What the conditions are, if they are not the usual ones: part of what a row answers.
std::string describe(const Conditions& c, std::string out) {
  const auto add = [&](std::string_view text) {
    if (!out.empty()) out += "; ";
    out += text;
  };
  if (c.detached_sends) add("detached sends");
  if (c.progress == Progress::Polling) add("polling");
  if (c.noise > 0) add(fmt::format("noise {} seed {}", c.noise, c.seed));
  if (c.straggler_share > 0)
    add(fmt::format("stragglers {}:{} seed {}", c.straggler_share, c.straggler_factor, c.seed));
  for (std::size_t w = 0; w < c.slow_worker.size(); ++w)
    if (c.slow_worker[w] != 1) add(fmt::format("worker {} x{}", w, c.slow_worker[w]));
  return out;
}

std::vector<Cell> cells_of(const SweepCommand& c) {
  std::vector<Cell> cells;
  std::vector<std::string> names;
  if (c.schedules == "all") {
    for (const Schedule& s : schedules()) names.emplace_back(s.name);
  } else {
    names = list_of(c.schedules, "--schedule");
  }
  std::vector<std::string> tokens(1);  // the usual ones
  if (!c.tokens.empty()) tokens = list_of(c.tokens, "--tokens");
  for (const std::string& machine_name : list_of(c.machines, "--machine")) {
    const Machine machine = c.conditions.machine(machine_name);
    for (const std::string& w : list_of(c.workers, "--workers"))
      for (const std::string& t : tokens)
        for (const std::string& h : list_of(c.heads, "--heads"))
          for (const std::string& s : names)
            for (const std::string& o : list_of(c.overlaps, "--overlap")) {
              Cell cell{c.rest.with(s, w, t, h, o), machine, {}};
              const Problem p = cell.flags.problem();  // refuses what makes no sense at once
              find_schedule(s);
              const CommunicationLimits limits = cell.flags.limits();
              SweepRow& r = cell.row;
              r.machine = machine.name;
              r.schedule = s;
              r.workers = fmt::format("{}", p.workers);
              r.tokens = fmt::format("{}", p.tokens.value);
              r.heads = fmt::format("{}", p.heads);
              r.kv_heads = fmt::format("{}", p.kv_heads);
              r.head_dim = fmt::format("{}", p.head_dim);
              r.dtype = to_text(p.dtype);
              r.mask = to_text(p.mask);
              r.pass = to_text(p.pass);
              r.overlap = to_text(limits.overlap);
              if (limits.buffers > 0) r.overlap += fmt::format(" {} buffers", limits.buffers);
              r.conditions = describe(c.conditions.conditions(p.workers), c.conditions.figures());
              cells.push_back(std::move(cell));
            }
  }
  return cells;
}

SweepRow answer(const Cell& cell, const SweepCommand& c) {
  SweepRow row = cell.row;
  try {
    const ProvedPlan proved = proved_plan(cell.flags);
    const Setup setup{cell.machine, c.conditions.conditions(proved.plan.problem.workers)};
    const Workload w = price(proved.plan, setup.machine, c.conditions.diagonal());
    const Simulation run = simulate(w, setup.conditions);
    const Report r = report(w, run, setup.conditions);
    row.makespan_us = microseconds(r.makespan);
    row.idle_fraction = fmt::format("{}", r.idle_fraction);
    row.overlap_fraction = fmt::format("{}", r.overlap_fraction);
    row.exposed_communication_us = microseconds(r.exposed_communication);
    row.speedup = fmt::format("{}", static_cast<double>(one_device(w, setup.machine).value) /
                                        static_cast<double>(r.makespan.value));
    row.peak_bytes = fmt::format("{}", proved.peak.value);
  } catch (const Error& e) {
    row.refused = e.what();
    std::replace(row.refused.begin(), row.refused.end(), '\n', ' ');
  }
  return row;
}

// Finished rows are appended beside the output, so that an interruption loses none of them.
class Journal {
 public:
  explicit Journal(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot write {}: {}", path_, std::strerror(errno));
    append(sweep_csv_header());
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() {
    if (file_ >= 0) ::close(file_);
  }
  void append(const std::string& line) {
    const std::lock_guard lock(guard_);
    if (file_ >= 0 && ::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      fail("cannot write {}: {}", path_, std::strerror(errno));
  }
  void finish() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  int file_ = -1;
  std::mutex guard_;
};

void run(const SweepCommand& c) {
  std::vector<Cell> cells = cells_of(c);
  const std::int64_t jobs = parse_count(c.jobs, "--jobs");
  if (jobs < 0 || jobs > 4096) fail("--jobs is {}, allowed are 0 (all cores) to 4096", c.jobs);
  const std::string journal_path =
      c.output.empty() ? c.output : fmt::format("{}.partial", c.output);

  std::map<std::string, SweepRow> known;
  std::vector<SweepRow> others;  // rows of the file that this sweep does not ask for
  if (!c.output.empty())
    for (const std::string& path : {c.output, journal_path})
      if (std::filesystem::exists(path))
        for (const SweepRow& row : read_sweep_csv(read_whole(path, 1u << 30), path))
          known[row.key()] = row;
  Journal journal(journal_path);
  for (const auto& [key, row] : known) journal.append(to_csv(row));

  std::vector<SweepRow> rows(cells.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto found = known.find(cells[i].row.key());
    if (found == known.end()) {
      open.push_back(i);
    } else {
      rows[i] = found->second;
    }
  }
  for (const Cell& cell : cells) known.erase(cell.row.key());
  for (const auto& [key, row] : known) others.push_back(row);
  {
    ProgressBar bar("sweep", std::max<std::size_t>(open.size(), 1));
    in_parallel(
        open.size(),
        [&](std::size_t i) {
          rows[open[i]] = answer(cells[open[i]], c);
          journal.append(to_csv(rows[open[i]]));
          bar.advance();
        },
        static_cast<unsigned>(jobs));
  }
  std::string csv = sweep_csv_header();
  for (const SweepRow& row : rows) csv += to_csv(row);
  if (!c.output.empty()) {
    for (const SweepRow& row : others) csv += to_csv(row);
    NewFile file(c.output);
    file.append(csv);
    file.finish();
    journal.finish();
  }
  if (c.format == "csv") {
    fmt::print("{}", csv);
  } else if (c.format == "json") {
    fmt::print("{}", to_json(rows));
  } else {
    fmt::print("{}", ranked_table(rows));
    if (!c.output.empty())
      fmt::print("\n{} in {}, {} of them new\n",
                 counted(static_cast<std::int64_t>(rows.size()), "row"), c.output, open.size());
  }
}

}  // namespace

void add_sweep_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("sweep", "Rank the schedules for many problems");
  auto command = std::make_shared<SweepCommand>();
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    app->add_option(name, value, help)->type_name(type);
  };
  flag("-s,--schedule", command->schedules, "LIST", "names apart by commas, or all (all)");
  flag("-w,--workers", command->workers, "LIST", "e.g. 4,8,16 (8)");
  flag("-t,--tokens", command->tokens, "LIST", "in all, e.g. 32K,64K (8K for each worker)");
  flag("--heads", command->heads, "LIST", "query heads (32)");
  flag("-m,--machine", command->machines, "LIST", "profiles, see ringsched machines (ideal)");
  flag("--overlap", command->overlaps, "LIST", "of none, prefetch and unbounded (prefetch)");
  command->rest.add_rest_to(*app);
  command->conditions.add_figures_to(*app);
  command->conditions.add_conditions_to(*app);
  flag("-o,--output", command->output, "FILE",
       "CSV; rows that stand there already are kept and\nnot computed again");
  flag("-j,--jobs", command->jobs, "N", "so many at a time; 0: one for each core (0)");
  app->add_option("--format", command->format, "text (default), csv or json")
      ->check(CLI::IsMember({"text", "csv", "json"}))
      ->type_name("FORMAT");
  app->callback([command] { run(*command); });
}

}  // namespace ringsched
