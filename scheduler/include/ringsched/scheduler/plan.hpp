// A Plan is everything a schedule decided, as flat data: which tensors exist and where, which tasks
// make them, and in which order each worker is told to do them. It knows no machine and no time,
// and once built it is not changed: a pass takes one plan and returns another.
//
// Invariants (verify() checks them; the simulator, the runtimes and the pictures rely on them):
//   - tasks stand in program order: within one worker and lane a lower TaskId is issued first, and
//     whatever a task reads was made by a lower TaskId, so ids are a topological order;
//   - a tensor is written once and lives on one worker; only Receive brings one in from elsewhere;
//   - a task waits for the tensors it reads, for its lane, and for its control edges: nothing else.
// Why the layout is what it is: docs/decisions/plan-layout.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringsched/scheduler/layout.hpp"
#include "ringsched/scheduler/problem.hpp"
#include "ringsched/scheduler/storage.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

enum class TensorKind : std::uint8_t {
  Query,             // Q rows
  KeyValue,          // K and V rows
  Partial,           // O normalised over the keys met so far, with its log-sum-exp; fp32
  OutputGradient,    // dO rows
  PreparedGradient,  // dO rows with the final log-sum-exp and delta = rowsum(dO * O)
  QueryGradient,     // dQ rows, fp32
  KeyValueGradient,  // dK and dV rows, fp32
};
inline constexpr std::uint32_t kTensorKinds = 7;

enum class TaskKind : std::uint8_t {
  Attend,          // Query, KeyValue -> Partial
  AttendBackward,  // Query, PreparedGradient, KeyValue -> QueryGradient and KeyValueGradient
  Prepare,         // Partial (final), OutputGradient -> PreparedGradient
  Merge,           // Partial, Partial -> Partial: combined through their log-sum-exp
  Reduce,          // gradient, gradient -> their sum
  Send,            // a tensor, to the worker of `peer`
  Receive,         // the tensor sent by `peer`, on this worker
  Output,          // a final Partial or gradient becomes a result of the whole computation
};
inline constexpr std::uint32_t kTaskKinds = 8;

// Each worker has three lanes. Tasks of one lane run one after the other; lanes overlap.
enum class Lane : std::uint8_t {
  Compute,
  Fetch,   // operands on their way to where they are used: Q, KV, prepared gradients
  Return,  // results on their way to where they are merged: partials, gradients
};
inline constexpr std::uint32_t kLanes = 3;

// 32 bytes; two to a cache line.
struct Task {
  TaskKind kind : 4 = TaskKind::Attend;
  TensorKind makes : 4 = TensorKind::Query;  // kind of the (first) output; of what a Send carries
  Lane lane : 2 = Lane::Compute;
  // Send and Receive: posted together with the task before it in its lane, as one group whose
  // members progress together and are complete together (an NCCL group, a batch of isend/irecv).
  bool with_previous : 1 = false;
  std::uint16_t worker_index = 0;
  Step step = 0;
  WorkId work;      // how much there is to do: an index into Plan::works
  RegionId region;  // queries of an attend; otherwise the tokens that are moved, merged or output
  union {
    RegionId keys;  // attends: the keys met, a part of what inputs[kKeyValue] holds
    TaskId peer;    // Send, Receive: the other half; none in a broken plan
  };
  std::array<TensorId, 3> inputs{};  // in the order given at TaskKind; the rest are none

  constexpr Task() : keys() {}
  WorkerId worker() const { return {worker_index}; }
};
static_assert(sizeof(Task) == 32);

// An attend reads its queries first and its keys last.
constexpr std::size_t key_value_input(TaskKind kind) { return kind == TaskKind::Attend ? 1 : 2; }
constexpr bool is_attend(TaskKind k) {
  return k == TaskKind::Attend || k == TaskKind::AttendBackward;
}
constexpr bool is_transfer(TaskKind k) { return k == TaskKind::Send || k == TaskKind::Receive; }

// The exact size of a task. Few are distinct, so whoever prices tasks prices these, once each.
struct Work {
  std::int64_t rows = 0;  // query rows of an attend; rows moved or merged otherwise
  std::int64_t keys = 0;  // attends only, like the next two
  Pairs pairs;
  TileForm form = TileForm::Empty;
  Bytes bytes;  // what a transfer carries; what a merge, reduce, prepare or output reads of
                // inputs[1 or 0]

  friend bool operator==(const Work&, const Work&) = default;
};

// A tensor that is there before anything runs, at home on its owner.
struct InitialTensor {
  TensorKind kind = TensorKind::Query;
  WorkerId worker;
  RegionId region;
};

// `after` may not start before `before`, of the same worker, has ended.
struct ControlEdge {
  TaskId before;
  TaskId after;
  friend bool operator==(const ControlEdge&, const ControlEdge&) = default;
};

// What `receive` brings in is put into receive buffer `slot` of its worker and tensor kind.
struct BufferSlot {
  TaskId receive;
  std::uint32_t slot = 0;
  friend bool operator==(const BufferSlot&, const BufferSlot&) = default;
};

struct Tensor {
  TensorKind kind = TensorKind::Query;
  WorkerId worker;
  RegionId region;
  TaskId producer;  // none: an initial tensor
};

// The most tasks of any plan; they fill 8 GiB. The builder and the reader of plan files refuse more
// before they take the memory, verify() and simulate() refuse such a plan from elsewhere.
inline constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 28;

struct Plan {
  Problem problem;
  Layout layout;
  std::string schedule;  // the name of what built it, for people
  std::vector<Region> regions;
  std::vector<Work> works;
  std::vector<InitialTensor> initial;
  TaskArray tasks;
  std::vector<ControlEdge> controls;  // sorted by (after, before)
  std::vector<BufferSlot> slots;      // sorted by receive; empty: as many buffers as it takes

  // Tensor ids are implicit: initial tensors first, then two for each task.
  TensorId output(TaskId task, std::uint32_t index = 0) const {
    return {static_cast<std::uint32_t>(initial.size()) + 2 * task.value + index};
  }
  TaskId producer(TensorId t) const {
    const auto n = static_cast<std::uint32_t>(initial.size());
    return t.value < n ? TaskId{} : TaskId{(t.value - n) / 2};
  }
  Tensor tensor(TensorId id) const {
    const TaskId maker = producer(id);
    if (!maker.valid()) {
      const InitialTensor& t = initial[id.value];
      return {t.kind, t.worker, t.region, maker};
    }
    const Task& task = tasks[maker.value];
    if (id == output(maker)) return {task.makes, task.worker(), task.region, maker};
    return {TensorKind::KeyValueGradient, task.worker(), task.keys, maker};
  }
  Bytes bytes(TensorKind, RegionId) const;
};

// The number of tensors a task makes: none (Send, Output), two (AttendBackward) or one.
constexpr std::uint32_t outputs_of(TaskKind kind) {
  if (kind == TaskKind::AttendBackward) return 2;
  return kind == TaskKind::Send || kind == TaskKind::Output ? 0 : 1;
}
Bytes tensor_bytes(const Problem&, TensorKind, Tokens rows);

std::string_view to_text(TensorKind);
std::string_view to_text(TaskKind);
std::string_view to_text(Lane);

}  // namespace ringsched
