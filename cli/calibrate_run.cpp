#include "calibrate_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "calibrate_summary.hpp"
#include "pictures.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/meeting.hpp"
#include "ringsched/runtime/stolen_time.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

// What has been measured so far, and its profile. A signal ends the process on a separate thread,
// while other threads are still timing tasks.
class SoFar {
 public:
  explicit SoFar(const CpuCalibration& c) : calibration_(c) {}

  void put(const CpuFigures& figures) {
    const std::lock_guard lock(guard_);
    figures_ = figures;
  }
  void put(const MeasuredLinks& links) {
    const std::lock_guard lock(guard_);
    links_ = links;
  }

  void write(const std::vector<std::string>& comments) const {
    ProfileNotes notes = calibration_.notes;
    notes.comments = comments;
    write_text(profile(figures_, links_, std::move(notes)), calibration_.output);
  }

  // In one line, for the end by a signal.
  std::string write_what_there_is() {
    const std::lock_guard lock(guard_);
    if (!figures_.usable())
      return fmt::format("too little was measured for a profile; {} is not written",
                         calibration_.output);
    std::string missing;
    for (const std::string& one : figures_.missing)
      missing += (missing.empty() ? "; missing: " : ", ") + one;
    const std::string doubt = unsettled(figures_, links_);
    const std::string how =
        fmt::format("interrupted{}{}{}", missing, doubt.empty() ? "" : "; ", doubt);
    try {
      write({how});
    } catch (const std::exception& e) {
      return e.what();
    }
    return fmt::format("wrote {}, {}", calibration_.output, how);
  }

 private:
  const CpuCalibration& calibration_;
  std::mutex guard_;
  CpuFigures figures_;
  MeasuredLinks links_;
};

MeasuredLinks measured_links(Meeting& m) {
  MeasuredLinks out;
  out.processes = m.world.size();
  out.transport = m.world.name();
  const auto measured = [&](const LinkBenchOptions& o) {
    auto points = measure_links(m.world, m.control, LinkPattern::Alone, o, [&](std::int64_t bytes) {
      m.watchdog.waits(fmt::format("measuring messages of {} bytes", bytes));
    });
    out.points += points.size();
    for (const LinkPoint& p : points) out.disturbed += p.settled ? 0 : 1;
    return points;
  };
  out.latency_us = measured({1, 1, 2, 200, 20})[0].us;
  double longest = out.latency_us;  // a longer message does not arrive sooner
  for (const LinkPoint& p : measured({16 << 10, 16 << 20, 4, 20, 3})) {
    longest = std::max(1.01 * longest, p.us);
    out.messages.push_back({p.bytes, static_cast<double>(p.bytes) / longest / 1e3});
    out.gb_per_s = std::max(out.gb_per_s, 1.01 * out.messages.back().gb_per_s);
  }
  return out;
}

// Checked for a moment, before anything here starts.
void warn_if_busy() {
  const OtherPrograms others;
  const StolenTime stolen;
  std::this_thread::sleep_for(300ms);
  const double cores = others.cores();
  if (cores >= kMuchOther * usable_cores())
    std::fprintf(stderr,
                 "ringsched: other programs use %.1f of %u cores now; the profile will say that "
                 "this machine is slower than it is\n",
                 cores, usable_cores());
  else if (stolen.share() >= kMuchStolen)
    std::fprintf(stderr,
                 "ringsched: the host of this virtual machine withholds %.0f%% of its processor "
                 "time now; the profile will say that it is slower than it is\n",
                 100 * stolen.share());
}

// What else was running meanwhile, as a sentence each.
std::vector<std::string> disturbances(const OtherPrograms& others, const StolenTime& stolen,
                                      bool alone) {
  std::vector<std::string> out;
  if (alone && others.cores() >= kMuchOther * usable_cores())
    out.push_back(fmt::format("other programs used {:.1f} of {} cores during the measurement",
                              others.cores(), usable_cores()));
  if (stolen.share() >= kMuchStolen)
    out.push_back(
        fmt::format("the host of this virtual machine withheld {:.1f}% of its processor time "
                    "during the measurement",
                    100 * stolen.share()));
  return out;
}

// One line on a terminal, gone when the work is done or fails.
class Progress {
 public:
  explicit Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const CalibrationProgress& p) const {
    clear();
    if (shown_ && !p.what.empty())
      std::fprintf(stderr, "%3.0f%%  %.0f s left  %s", 100 * p.done, p.seconds_left,
                   p.what.c_str());
  }

 private:
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

  const bool shown_;
};

void measure_and_write(const CpuCalibration& c, Meeting& m, SoFar& so_far) {
  const bool alone = m.world.size() == 1;
  if (alone) warn_if_busy();
  const OtherPrograms others;
  const StolenTime stolen;
  CalibrationOptions options = c.options;
  MeasuredLinks links;
  if (!alone) {
    links = measured_links(m);
    so_far.put(links);
    // All measure at the same time, each on its share of the cores, as in a run.
    const unsigned share = std::max(1u, usable_cores() / processes_here(m.world));
    if (options.cores == 0) options.cores = share;
  }
  const Progress progress(m.first());
  const CpuFigures figures = measure_cpu(options, [&](const CalibrationProgress& p) {
    m.watchdog.works("measuring " + p.what);
    so_far.put(p.so_far);
    progress.show(p);
  });
  if (!m.first()) return;
  m.watchdog.works("writing");
  const std::vector<std::string> meanwhile = disturbances(others, stolen, alone);
  fmt::print("{}", summary(figures, links));
  for (const std::string& what : meanwhile) fmt::print("{}\n", what);
  std::fflush(stdout);  // before a file that cannot be written ends it
  m.end.finally([&m](const std::string& why, int code) {
    m.world.last_words({why, {}, false, code});
  });
  so_far.write(meanwhile);
  fmt::print("\nprofile    {}\n", c.output);
}

}  // namespace

void calibrate_cpu(const CpuCalibration& c, const JoinFlags& join) {
  SoFar so_far(c);
  meet(join, c.deadline, [&](Meeting& m) {
    m.end.finally([&](const std::string& why, int code) {
      if (m.first() && m.control.interrupted() != 0)
        std::fprintf(stderr, "ringsched: %s\n", so_far.write_what_there_is().c_str());
      m.world.last_words({why, {}, false, code});
    });
    measure_and_write(c, m, so_far);
    return 0;
  });
}

}  // namespace ringsched
