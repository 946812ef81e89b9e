// When each task of a plan ran, predicted by the simulator or measured by a runtime. Both have one
// form, so that one picture, one report and one comparison serve both. A timeline needs no plan: it
// has what a reader must know of each task. docs/timeline-format.md describes the file format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/exchange_form.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/storage.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

inline constexpr int kTimelineVersion = 1;

// Emulated: a run on an emulated device, whose times measure nothing.
enum class TimelineSource : std::uint8_t { Predicted, Measured, Emulated };

// A task and its time. A transfer starts when its worker has posted it and ends when its group is
// complete; so do members of an exchange.
struct TimelineTask {
  TaskKind kind = TaskKind::Attend;
  Lane lane = Lane::Compute;
  std::uint16_t worker = 0;
  // The owner of what is worked on. If several workers own the queries: this worker if it is one of
  // them, else the first owner; the span of the task has all.
  std::uint16_t queries = 0;
  // Attends: the owner of the keys; transfers: the other end; exchanges: the first member.
  std::uint16_t other = 0;
  ValueId makes;
  Step step = 0;
  std::int64_t start_ps = 0;
  std::int64_t end_ps = 0;

  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};
static_assert(sizeof(TimelineTask) == 32);

// What fixed when a task started.
enum class StartedBy : std::uint8_t {
  Nothing,  // it started at once
  Data,     // an input was made or arrived
  Lane,     // its lane was busy
  Buffers,  // a control edge: a buffer, or a limit on how far communication runs ahead
  Kernel,   // a kernel had the SMs; where workers take turns, the core
  Host,     // the host had not issued it before
};
inline constexpr std::uint32_t kStartedBy = 6;

// How a task relates to others.
struct TaskDetail {
  Pairs pairs;                    // attends only
  Bytes bytes;                    // of what it makes; sends: of what they carry
  std::array<TaskId, 3> needs{};  // the tasks that made its inputs; a receive: its send
  TaskId because;                 // the task that fixed its start
  StartedBy cause = StartedBy::Nothing;

  friend bool operator==(const TaskDetail&, const TaskDetail&) = default;
};

// A piece of the critical path: this task accounts for the time from start to end.
struct CriticalStep {
  TaskId task;
  Picoseconds start, end;

  friend bool operator==(const CriticalStep&, const CriticalStep&) = default;
};

// The members of an exchange are tasks with consecutive ids.
struct TimelineExchange {
  TaskId first;
  std::uint32_t members = 0;
  ExchangeForm form = ExchangeForm::Other;

  std::uint32_t end() const { return first.value + members; }
  friend bool operator==(const TimelineExchange&, const TimelineExchange&) = default;
};

// What a task works on, if several workers own it, or if it has only some heads.
struct TaskSpan {
  TaskId task;
  std::array<std::uint16_t, 2> queries{}, other{};  // the first and the last owner
  ColumnRange heads;
  // The distance between owners of the queries, and between those of the others; 0: not even.
  std::array<std::uint16_t, 2> every{1, 1};

  friend bool operator==(const TaskSpan&, const TaskSpan&) = default;
};

// The chunks of its owner's share that a task works on, from 0 on.
struct ChunksOfShare {
  static constexpr std::uint32_t kAll = ~0u;
  std::uint32_t first = kAll, last = kAll;

  bool are_all() const { return first == kAll; }
  friend bool operator==(const ChunksOfShare&, const ChunksOfShare&) = default;
};

// What a task works on, if that is not all of a share.
struct TaskPart {
  TaskId task;
  ChunksOfShare queries;
  ChunksOfShare keys;  // attends only

  friend bool operator==(const TaskPart&, const TaskPart&) = default;
};

// How much of what a backward attend makes is gradients of keys and values; the rest is those of
// queries.
struct TaskGradients {
  TaskId task;
  Bytes keys;

  friend bool operator==(const TaskGradients&, const TaskGradients&) = default;
};

struct Timeline {
  TimelineSource source = TimelineSource::Predicted;
  std::string program;  // what made it, with its version
  std::string machine;
  TimeUnit unit = TimeUnit::Seconds;  // blocks on the machine `ideal`
  std::string conditions;  // what was unusual about the run: noise, slow workers; may be empty
  std::string schedule;
  std::string plan_hash;
  Problem problem;
  std::vector<Value> values;                                               // what `makes` names
  std::vector<std::string> lanes{kBasicLanes.begin(), kBasicLanes.end()};  // their names, by Lane
  std::vector<TimelineTask, PageAllocator<TimelineTask>> tasks;            // by TaskId
  std::vector<TaskDetail, PageAllocator<TaskDetail>> details;  // by TaskId, too; empty: not known
  std::vector<CriticalStep> critical_path;                     // in time's order; may be empty
  // For a prediction: should contain the makespan in 80% of cases.
  std::optional<std::array<Picoseconds, 2>> interval;
  std::optional<Picoseconds> bound;  // for a prediction: no run of its plan can take less
  std::vector<Bytes> initial;        // by worker, of what is there before the run; empty: not known
  std::vector<TimelineExchange> exchanges;  // sorted by first: all tasks of that kind
  std::vector<TaskSpan> spans;              // sorted by task; most tasks need none
  std::vector<TaskPart> parts;              // likewise
  std::vector<TaskGradients> gradients;     // by task; none without details
  // For a run that did not finish: why, and the tasks that did not end, in order. Those that had
  // begun end when it was given up; the others have no time.
  std::string incomplete;
  std::vector<TaskId> unfinished;

  const Value& value(const TimelineTask& t) const { return values[t.makes.value]; }
  const TaskSpan* span(std::uint32_t task) const;              // null: it needs none
  const TaskPart* part(std::uint32_t task) const;              // null: it has whole shares
  const TimelineExchange* exchange(std::uint32_t task) const;  // null: it is of none
  Picoseconds makespan() const;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Sixteen digits that differ for plans that do different things.
std::string plan_hash(const Plan&);

// The timeline of a plan with all times zero, and all details but causes.
Timeline timeline_of(const Plan&, TimelineSource, std::string_view machine);

// "3", "0-7"; "0-6/2": every second worker from 0 to 6; "0+4": workers 0 and 4; "0..6": some of
// these.
std::string homes_text(std::array<std::uint16_t, 2> ends, std::uint16_t every);

std::string_view to_text(TimelineSource);
std::string_view to_text(StartedBy);

std::string write_timeline(const Timeline&);
// Written atomically. Throw Error.
void write_timeline_file(const Timeline&, const std::string& path);
Timeline read_timeline(std::string_view json, std::string_view name);
Timeline read_timeline_file(const std::string& path);  // "-" reads standard input

}  // namespace ringsched
