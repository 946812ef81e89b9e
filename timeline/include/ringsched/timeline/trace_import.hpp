// Matches profiler traces of a real run, one file for each rank, to the tasks of a plan: the k-th
// attend of a rank is the plan's k-th attend on that worker, and the same for messages. If counts
// do not match, the run did something else than the plan. docs/import.md says what is read and how.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// What an event of a trace means for a plan. Reading a file leaves out all other events.
enum class TraceWork : std::uint8_t {
  Attend,
  AttendBackward,
  Send,
  Receive,
  SendReceive,  // one kernel for a batch of sends and receives
  Exchange,     // a member of a collective
  Compute,      // elementwise: merges and sums, if it lies between attends
};

struct TraceEvent {
  TraceWork work = TraceWork::Compute;
  ExchangeForm form = ExchangeForm::Other;  // exchanges
  std::int64_t peer = -1;                   // the rank at the other end; -1: not known
  std::int64_t tag = -1;                    // of the message; -1: not known
  std::int64_t bytes = -1;                  // of the message; -1: not known
  std::int64_t pairs = -1;                  // of query and key, of an attend; -1: not known
  std::int64_t stream = 0;                  // or thread
  std::int64_t start_ps = 0, end_ps = 0;    // since the origin of the trace

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

struct RankTrace {
  std::string name;                // of the file
  std::string device;              // what it ran on, for people
  std::string host;                // empty: the file does not say
  std::int64_t rank = -1;          // -1: likewise
  std::int64_t origin_ns = 0;      // on the clock of its host
  std::vector<TraceEvent> events;  // sorted by start
  std::vector<TraceEvent> ranges;  // those named TraceNames::annotation, by start
};

// Names to look for, in addition to the known ones of PyTorch and its kernels.
struct TraceNames {
  std::string attend, attend_backward;  // a part of the name; empty: the known ones
  std::string annotation;               // a whole name
};

// A trace of PyTorch's profiler (Kineto). Throw Error.
RankTrace read_kineto(std::string_view json, std::string_view name, const TraceNames& = {});
RankTrace read_kineto_file(const std::string& path, const TraceNames& = {});
// What `nsys export --type=sqlite` writes.
RankTrace read_nsys_file(const std::string& path, const TraceNames& = {});
// Of the SQLite that reads them: "3.40.1"; empty: ringsched was built without it.
std::string sqlite_version();

struct ImportOptions {
  std::uint32_t repeat = 0;  // which call of attention, from 1; 0: the last
  bool annotated = false;    // calls are the ranges of the traces
};

struct ImportedRun {
  Timeline timeline;                    // meaningful only if nothing mismatches
  std::vector<std::string> mismatches;  // "worker 3: 7 attends in the trace; the plan needs 8"
  std::vector<std::string> notes;       // what was left out or is doubtful
  std::uint32_t call = 0, calls = 0;    // which of how many was taken, from 1
  std::uint32_t parts = 1;              // messages in the trace for each of the plan
  std::int64_t clocks_moved_ps = 0;     // the most that a rank's clock was moved
  std::int64_t clocks_left_ps = 0;      // by how much messages still end too early, at worst
};

// Throws Error if there is not one trace for each worker, or no such call.
ImportedRun import_traces(const Plan&, std::vector<RankTrace>, const ImportOptions& = {});

}  // namespace ringsched
