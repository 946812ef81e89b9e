// What a simulated run amounts to. Each word is defined once, in docs/metrics.md; text, JSON and
// tables print what stands here and compute nothing of their own.
#pragma once

#include <string>
#include <vector>

#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

struct WorkerReport {
  // Where its makespan went: these add up to it.
  Picoseconds attending;
  Picoseconds overhead;     // merges, sums, preparation, launches of those
  Picoseconds waiting;      // before a task that is still to come
  Picoseconds out_of_work;  // after its last task
  // Of its communication.
  Picoseconds waiting_for_sender;  // receives that are posted while the sender is not
  Picoseconds transferring;        // at least one message on its way, to or from here
  Picoseconds hidden;              // ... while it computes
  // As HolisticTraceAnalysis counts, from its first task to its last.
  Picoseconds hta_span, hta_busy, hta_communication, hta_overlapped;
};

// What the time on the longest path went to.
struct PathShare {
  Picoseconds attending, overhead, startup, wire;
  Picoseconds contention;  // a message or kernel slowed by others
  Picoseconds waiting;     // whatever is none of these
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

struct Report {
  Picoseconds makespan;
  double idle_fraction = 0;
  double hta_idle_fraction = 0;
  double overlap_fraction = 1;  // likewise of no communication: none is exposed
  double hta_overlap_fraction = 1;
  Picoseconds exposed_communication;  // per worker, on average
  std::vector<WorkerReport> workers;
  std::vector<LinkReport> links;  // those that carried something, busiest first
  PathShare path;
  std::vector<PathStep> path_steps;  // from the start of the run to its end
  LowerBounds bounds;
};

Report report(const Workload&, const Simulation&, const Conditions& = {});

// How long the whole problem takes on one device of the machine; on `ideal`, all blocks one after
// the other.
Picoseconds one_device(const Workload&, const Machine&);

// For each task, how much longer it could have taken without the run ending later, all else as it
// was; of a transfer, its message. Exact where nothing is shared, otherwise never too much. ps.
TaskColumn<std::int64_t> slack(const Workload&, const Simulation&, const Conditions& = {});

}  // namespace ringsched
