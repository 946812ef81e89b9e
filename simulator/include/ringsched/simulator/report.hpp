// The results of a simulated run. docs/metrics.md defines each word. Text, JSON and tables print
// what is here and compute nothing themselves.
#pragma once

#include <string>
#include <vector>

#include "ringsched/simulator/simulate.hpp"
#include "ringsched/timeline/accounting.hpp"

namespace ringsched {

// How the time on the critical path was spent.
struct PathShare {
  Picoseconds attending, overhead, startup, wire;
  Picoseconds below_speed;  // a message alone, slower than its links: few channels, or its size
  Picoseconds contention;   // a message or kernel slowed by others
  Picoseconds host;         // the host issuing work until then
  Picoseconds waiting;      // whatever is none of these
};

struct LowerBounds {
  Picoseconds work;    // all computing, spread evenly over the workers
  Picoseconds worker;  // the computing of the busiest worker
  Picoseconds chain;   // the longest chain of tasks that need each other, nothing shared
  Picoseconds link;    // the bytes over the busiest link
  Picoseconds best() const;
};

struct PathStep {
  TaskId task;
  Cause::Kind cause = Cause::None;  // what fixed when the task started
  Picoseconds start, end;
};

struct LinkReport {
  LinkId link;
  double bytes = 0;
  Picoseconds busy;
  double utilisation = 0;  // of what it could carry during the makespan
};

// A group of similar exchanges, and what priced them.
struct ExchangeReport {
  ExchangeForm form = ExchangeForm::Other;
  std::uint32_t members = 0;
  std::uint32_t nodes = 0, per_node = 0;  // of the members; per_node 0: not the same in all nodes
  std::uint32_t count = 0;
  double bytes = 0;                          // that pass between workers, in all of them
  std::uint32_t row = ExchangeCost::kLinks;  // of Machine::collectives, or the links alone
  std::uint32_t calls = 1;                   // of a library, for each of them
};

// The accounts of the run, and what only a simulator can know.
struct Report : RunTimes {
  std::vector<LinkReport> links;  // those that carried something, busiest first
  PathShare path;
  std::vector<PathStep> path_steps;  // from the start of the run to its end
  LowerBounds bounds;
  std::vector<ExchangeReport> exchanges;
};

Report report(const Workload&, const Simulation&, const Conditions& = {});

// How long the whole problem takes on one device of the machine; on `ideal`, all blocks one after
// the other. `Deviation`: with other figures that the machine may have.
Picoseconds one_device(const Workload&, const Machine&, const Deviation& = {});

// What the longest attend of a decoding plan waits for: "memory" or "compute"; else empty.
std::string_view attends_bound_by(const Plan&, const Machine&);

// For each task (of a transfer, its message), how much longer it could have taken without the run
// ending later, all else equal. Exact if nothing is shared, otherwise never too much. ps.
TaskColumn<std::int64_t> slack(const Workload&, const Simulation&, const Conditions&);

}  // namespace ringsched
