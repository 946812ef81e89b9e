#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "commands.hpp"
#include "page_flags.hpp"
#include "pictures.hpp"
#include "progress.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "sweep.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct SweepCommand : SweepQuestion {
  std::string output, jobs = "0", format = "text", plot;
  PageFlags page;
};

// Appends finished rows to a file beside the output, so that an interruption loses none of them.
// Only one sweep at a time may write there.
class Journal {
 public:
  explicit Journal(const std::string& output) : path_(output.empty() ? "" : output + ".partial") {
    if (path_.empty()) return;
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot write {}: {}", path_, std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0)
      fail("another sweep is writing {}; wait for it, or use another --output", output);
    drop_half_a_line();
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() {
    if (file_ < 0) return;
    if (!has_rows_) ::unlink(path_.c_str());
    ::close(file_);
  }
  void add(const SweepRow& row) {
    append(to_csv(row));
    has_rows_ = true;
  }
  const std::string& path() const { return path_; }
  void finish() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  void append(std::string_view line) {
    const std::lock_guard lock(guard_);
    while (file_ >= 0 && !line.empty()) {
      const ssize_t n = ::write(file_, line.data(), line.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        throw std::runtime_error(fmt::format("cannot write {}: {}; the finished rows stay there",
                                             path_, std::strerror(errno)));
      line.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // An interruption leaves whole lines after the header, and perhaps half a line at the end.
  void drop_half_a_line() {
    const std::string text = read_whole(path_, 1u << 30);
    const std::size_t whole = text.rfind('\n') + 1;  // 0 without a whole line
    if (whole < text.size() && ::ftruncate(file_, static_cast<off_t>(whole)) != 0)
      fail("cannot write {}: {}", path_, std::strerror(errno));
    has_rows_ = text.find('\n') + 1 < whole;
    if (whole == 0) append(sweep_csv_header());
  }

  std::string path_;
  int file_ = -1;
  std::atomic<bool> has_rows_{false};  // or there is nothing to keep
  std::mutex guard_;
};

void require_output(const std::string& file) {
  check_output(file, "--output");
  if (!file.empty() && !file.ends_with(".csv"))
    fail("--output {}: use a name that ends in .csv", file);
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
    fail("--output {} is not a file; rows are appended to a file (--format csv prints them)", file);
}

// The rows that earlier sweeps left in the file and in its journal, by what they answer.
std::map<std::string, SweepRow> known_rows(const std::string& file, const Journal& journal) {
  std::map<std::string, SweepRow> known;
  if (!file.empty())
    for (const std::string& path : {file, journal.path()})
      if (std::filesystem::exists(path))
        for (const SweepRow& row : read_sweep_csv(read_whole(path, 1u << 30), path))
          known[row.key()] = row;
  return known;
}

// Lines if tokens or workers vary, else where the time goes.
Picture picture_of(const std::vector<SweepRow>& rows, const Page& page) {
  std::string csv = sweep_csv_header();
  for (const SweepRow& row : rows) csv += to_csv(row);
  const Records records = read_csv_records(csv, "this sweep");
  return has_lines(records) ? line_plot(sweep_lines(records, PlotY::Time), page)
                            : time_bars(sweep_bars(records), page);
}

// Throws Error, before the work, if such rows cannot be drawn, whatever their results.
void require_picture(const std::vector<SweepCell>& cells, const Page& page) {
  std::vector<SweepRow> rows;
  for (const SweepCell& cell : cells) {
    SweepRow& row = rows.emplace_back(cell.row);
    for (std::string* result : {&row.makespan_us, &row.idle_fraction, &row.overlap_fraction,
                                &row.exposed_communication_us, &row.attending_us, &row.overhead_us,
                                &row.waiting_us, &row.waiting_for_host_us, &row.out_of_work_us,
                                &row.speedup, &row.bound_us, &row.peak_bytes})
      *result = "1";
  }
  picture_of(rows, page);
}

// Returns 2 if there is nothing to rank.
ExitCode run(const SweepCommand& c) {
  check_choice("--format", c.format, {"text", "csv", "json"});
  std::vector<SweepCell> cells = cells_of(c);
  const std::int64_t jobs = number_of(c.jobs, "--jobs", 0, 4096);
  require_output(c.output);
  check_output(c.plot, "--plot", std::span(&c.output, 1));
  const FileKind picture =
      c.plot.empty() ? FileKind::Svg : file_kind(c.plot, "--plot", kPictureKinds);
  const Page page = c.page.page();
  if (c.plot.empty()) c.page.refuse("is only for a picture: --plot FILE (.svg, .pdf or .png)");
  if (!c.plot.empty()) require_picture(cells, page);
  Journal journal(c.output);
  std::map<std::string, SweepRow> known = known_rows(c.output, journal);
  std::vector<SweepRow> others;  // rows of the file that this sweep does not ask for
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
  for (const SweepCell& cell : cells) known.erase(cell.row.key());
  for (const auto& [key, row] : known) others.push_back(row);
  {
    ProgressBar bar("sweep", std::max<std::size_t>(open.size(), 1));
    in_parallel(
        open.size(),
        [&](std::size_t i) {
          rows[open[i]] = answer(cells[open[i]], c);
          journal.add(rows[open[i]]);
          bar.advance();
        },
        static_cast<unsigned>(jobs));
  }
  std::string csv = sweep_csv_header();
  for (const SweepRow& row : rows) csv += to_csv(row);
  if (!c.output.empty()) {
    NewFile file(c.output);
    file.append(csv);
    for (const SweepRow& row : others) file.append(to_csv(row));
    file.finish();
    journal.finish();
  }
  if (c.format == "csv") {
    fmt::print("{}", csv);
  } else if (c.format == "json") {
    fmt::print("{}", to_json(rows));
  } else {
    fmt::print("{}", ranked_table(rows));
    std::vector<std::string> defaults;  // of each machine
    for (const SweepCell& cell : cells)
      if (std::string d = c.conditions.defaults(cell.machine);
          !d.empty() && std::ranges::find(defaults, d) == defaults.end())
        defaults.push_back(std::move(d));
    if (std::string has = c.conditions.of_library(cells.front().machine); !has.empty())
      defaults.push_back(std::move(has));
    if (!c.conditions.replaced().empty()) defaults.push_back(c.conditions.replaced());
    for (const std::string& d : defaults)
      fmt::print("{}{}\n", d == defaults.front() ? "\n" : "", on_terminal_lines(d, 2));
    if (!c.output.empty())
      fmt::print("\n{} in {}, {} new\n",
                 counted(static_cast<std::int64_t>(rows.size() + others.size()), "row"), c.output,
                 open.size());
  }
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const SweepRow& r) { return r.holds(); });
  if (any && !c.plot.empty()) {
    write_picture(picture_of(rows, page), picture, c.plot, page.pixels);
    if (c.format == "text") fmt::print("\nplot {}\n", c.plot);
  }
  return any ? 0 : 2;
}

}  // namespace

void add_sweep_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("sweep", "Rank schedules for many problems and machines");
  auto command = std::make_shared<SweepCommand>();
  command->add_to(*app);
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    app->add_option(name, value, help)->type_name(type)->group("Options");
  };
  flag("-o,--output", command->output, "FILE",
       "CSV file to write; results already in it are kept, not computed again");
  flag("-j,--jobs", command->jobs, "N", "simulations to run at once; 0 = one per core (default 0)");
  flag("--format", command->format, "FORMAT", "text, csv or json (default text)");
  flag("--plot", command->plot, "FILE",
       "draw time against tokens or workers (or a breakdown of the time, if neither varies): .svg, "
       ".pdf or .png; 'ringsched plot' has more charts");
  command->page.add_to(*app);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
