// Where the time of a run went, worker by worker, predicted or measured. docs/metrics.md defines
// each word; reports, tables and pictures print what is here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

struct WorkerTimes {
  // How its makespan was spent: these add up to it.
  Picoseconds attending;
  Picoseconds overhead;          // merges, sums, preparation, launches of those
  Picoseconds waiting;           // before a task that is still to come
  Picoseconds waiting_for_host;  // ... that the host had not issued: a part of `waiting`
  Picoseconds out_of_work;       // after its last task
  // Of its communication.
  Picoseconds waiting_for_sender;  // receives that are posted while the sender is not, and
                                   // exchanges while some member is not
  Picoseconds transferring;        // at least one message on its way, to or from here, or exchange
  Picoseconds hidden;              // ... while it computes
  // As HolisticTraceAnalysis counts, from its first task to its last.
  Picoseconds hta_span, hta_busy, hta_communication, hta_overlapped;
};

struct RunTimes {
  Picoseconds makespan;
  double idle_fraction = 0;
  double hta_idle_fraction = 0;
  double overlap_fraction = 1;  // likewise without communication: none is exposed
  double hta_overlap_fraction = 1;
  Picoseconds exposed_communication;  // per worker, on average
  std::vector<WorkerTimes> workers;
};

// What fixed the start of a task.
struct Start {
  std::int64_t at = 0;  // ps
  std::uint32_t worker = 0;
  bool by_host = false;      // the host had issued it, and not before
  bool posted_last = false;  // a transfer or exchange: no other end was posted later
  TaskId because;            // the task that fixed its start
};
// Until when the host kept each task waiting, ps; 0: it did not. If a task starts once a message or
// exchange is there for which only the host of its worker was late, it waited until that was
// issued.
std::vector<std::int64_t> kept_by_host(const std::vector<Start>&);

// Gathers the tasks of a run, in any order, and adds up the accounts.
class Accounting {
 public:
  explicit Accounting(std::uint32_t workers);
  ~Accounting();
  // `both_posted`: of a transfer, when its other end was posted too; of an exchange, when all
  // members were. `host_until`: until when the host kept it waiting.
  void add(TaskKind, std::uint32_t worker, Lane, std::int64_t start, std::int64_t end,
           std::int64_t both_posted, std::int64_t host_until = 0);
  RunTimes close(Picoseconds makespan);

 private:
  struct Activity;
  std::vector<Activity> activities_;
  std::vector<WorkerTimes> workers_;
};

// Without details a timeline does not say which send belongs to a receive; its messages then count
// as moving from when their own end was posted.
RunTimes run_times(const Timeline&);

// When both ends of each transfer, or all members of each exchange, were posted, by task; for other
// tasks their start, ps.
std::vector<std::int64_t> moving_from(const Timeline&);
// When the bytes of each transfer have surely arrived: its own group or that of its other end was
// complete. For other tasks, exchanges included, their end, ps.
std::vector<std::int64_t> moving_until(const Timeline&);

}  // namespace ringsched
