// How events of traces become tasks of a plan: the plan as each rank would run it, the call of
// attention to take from each trace, and which event is which task.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ringsched/scheduler/words.hpp"
#include "ringsched/timeline/trace_import.hpp"

namespace ringsched::trace_import {

inline constexpr std::size_t kPasses = 2;  // forward, backward
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// What a worker does in one pass of a plan, in the plan's order.
struct PassTasks {
  std::vector<TaskId> attends;
  std::vector<TaskId> computes;  // of lane compute: attends, merges, outputs and the rest
  std::vector<TaskId> messages;  // sends, receives and members of exchanges
};
struct WorkerTasks {
  std::array<PassTasks, kPasses> passes;
};
std::vector<WorkerTasks> tasks_by_worker(const Plan&);

// What a rank did in one pass of the chosen call.
struct PassEvents {
  std::vector<TraceEvent> attends, computes;
  // When its messages begin: after the last attend of other calls before it, and before the first
  // one after it.
  std::int64_t from_ps = std::numeric_limits<std::int64_t>::min(), to_ps = kNever;
};
struct WorkerEvents {
  std::array<PassEvents, kPasses> passes;
  std::vector<TraceEvent> messages;  // of the whole trace
};

struct TakenCall {
  std::vector<WorkerEvents> workers;
  std::vector<std::string> mismatches;
  std::uint32_t call = 0, calls = 0;
  std::uint32_t held = 1;               // how many calls the messages are of
  std::array<bool, kPasses> attends{};  // whether the plan has any in that pass
  bool apart = false;  // other layers of a model ran between its forward and backward pass
};
// `traces` by worker. Throws Error if there is no such call.
TakenCall take_call(const std::vector<WorkerTasks>&, std::span<const RankTrace> traces,
                    const ImportOptions&);

// Compares the pairs of query and key that attends took, where traces tell, with those that the
// plan needs: `mismatches` where they are fewer, `notes` where they are more.
struct SizeMatch {
  std::vector<std::string> mismatches, notes;
};
SizeMatch match_sizes(const Plan&, const std::vector<WorkerTasks>&, const TakenCall&);

// When tasks ran: by task, from and to. A task without a matched event has no times yet.
struct TaskTime {
  std::int64_t start_ps = kNever, end_ps = kNever;
  bool known() const { return start_ps != kNever; }
};
using TaskTimes = std::vector<TaskTime>;

struct MessageMatch {
  std::uint32_t parts = 1;  // messages in the trace for each of the plan
  std::vector<std::string> mismatches, notes;
};
// Attends must have their times. `ranks`: of each worker.
MessageMatch match_messages(const Plan&, const std::vector<WorkerTasks>&, const TakenCall&,
                            std::span<const std::int64_t> ranks, TaskTimes&);

// Merges, sums and the rest between attends.
void match_computes(const Plan&, const std::vector<WorkerTasks>&, const TakenCall&, TaskTimes&);

// What to add to the times of each worker, so that no message ends before it began.
struct Clocks {
  std::vector<std::int64_t> moves_ps;
  std::int64_t moved_ps = 0;  // the most that one differs from what the traces say
  std::int64_t left_ps = 0;   // by how much the worst message still ends too early
};
// Traces of one host share a clock, which does not change.
Clocks align_clocks(const Plan&, const TaskTimes&, std::span<const RankTrace>);

}  // namespace ringsched::trace_import
