// A real run of a plan, by one process or by several together: what `ringsched run` does, without
// its flags and its printing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/runtime/agreement.hpp"
#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/inputs.hpp"
#include "ringsched/runtime/meeting.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// What computes: the cores of this machine, or its GPUs.
struct BackendOptions {
  std::string name = "cpu";
  bool graph = false;  // cuda: capture the run once, and launch that

  void require_valid(const std::string& transport) const;  // throws Error
};

struct RunOptions {
  BackendOptions backend;
  std::chrono::seconds deadline{600};  // for the start, each run and each wait for others
  std::int64_t repeats = 3;
  bool fastest = false;  // report the fastest run, not the median one
  bool check = false;    // check the numbers
  std::int64_t check_rows = 0;
  bool check_finite = false;
  InputKind inputs{};
  std::uint64_t seed = 1;
  std::string timeline;  // where to write what is known of a failed run; empty: nowhere
};

// The measurements, the same on each process.
struct Measured {
  std::string where;                    // "2 cores, amx; 8 workers as threads of one process"
  std::vector<Picoseconds> makespans;   // of each run, in order
  Picoseconds median;                   // of them
  Timeline timeline;                    // of the kept run nearest to the median, or the fastest
  RunTimes times;                       // its accounts
  Bytes memory;                         // on the fullest worker of this process
  std::vector<CheckedResults> checked;  // empty: not asked for
  std::string kernels;                  // "36 attends by cuDNN"; empty: only one kind
  std::string exchanges;                // "6 exchanges by MPI_Ialltoallw"; empty: nothing to say
  bool in_turns = false;                // workers take turns on the cores
  Launch launch;
  std::string transport;
  std::chrono::nanoseconds clock_error{};  // between processes; 0: they share a clock
  double clock_drift = 0;                  // corrected, per second
  bool fastest = false;
  std::uint32_t sharing = 1;  // processes on this machine, whose workers share its cores
  double stolen = 0;  // share of the processors' time that others on the host took meanwhile

  bool holds() const;  // whether all numbers checked are within their bounds
};

class Session {
 public:
  // Called with the name of each stage of the work as it begins, and with "" as it ends.
  using Announce = std::function<void(std::string_view)>;

  Session(Meeting&, const RunOptions&, Announce);

  bool first() const { return meeting_.first(); }  // the process that prints
  World& world() { return meeting_.world; }
  // What this process does now, before it measures. All of that together may take as long as the
  // deadline.
  void starts(const std::string& what) { meeting_.watchdog.starts(what); }
  // False, after reporting why on each process, if they do not all have the same facts, or are too
  // many for the plan's workers.
  bool agrees(const Facts&, const Plan&);
  // Runs the plan. Keeps a reference to it, which must outlive in_session(), not only its body: a
  // failed run reports what is left after the body has ended.
  Measured measure(const Plan&);

 private:
  struct Job;
  void begin(const Plan&);
  Timeline run_once(const Plan&, ClockLine&, Measured&);
  void stage(std::string_view what, bool shown = true);

  Meeting& meeting_;
  const RunOptions& options_;
  const Announce announce_;
  std::shared_ptr<Job> job_;
};

// meet(), with a session as the body.
int in_session(const JoinOptions&, const RunOptions&, Session::Announce,
               const std::function<int(Session&)>& body, const std::function<void()>& report);

}  // namespace ringsched
