// A Plan is everything a schedule decided, as flat data: which tensors exist and where, which tasks
// make them, and in which order each worker does them. It knows no machine and no time. It never
// changes once it is built: a pass takes one plan and returns another.
//
// Invariants (verify() checks them; the simulator, the runtimes and the pictures rely on them):
//   - tasks stand in program order: within one worker and lane a lower TaskId is issued first, and
//     whatever a task reads was made by a lower TaskId, so ids are a topological order;
//   - a tensor is written once and lives on one worker; only Receive and Exchange bring one in from
//     elsewhere;
//   - the members of an exchange are consecutive tasks, one for each worker that takes part; those
//     of a repack are consecutive tasks of one worker, which start and end together;
//   - a task waits for the tensors it reads, for its lane, and for its control edges: nothing else.
// Why the layout is what it is: docs/decisions/plan-layout.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/layout.hpp"
#include "ringsched/scheduler/program.hpp"
#include "ringsched/scheduler/storage.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

// Tasks of one lane of a worker run one after the other; lanes overlap. Every plan has these; it
// may declare more (3, 4, ...) for transfers. Tasks that are not transfers are on lane Compute.
enum class Lane : std::uint8_t {
  Compute,
  Fetch,   // operands on their way to where they are used: Q, KV, prepared gradients
  Return,  // results on their way to where they are merged: partials, gradients
};
inline constexpr std::array<std::string_view, 3> kBasicLanes = {"compute", "fetch", "return"};
inline constexpr std::uint32_t kMostLanes = 8;
// Why a plan cannot have lanes of these names; empty if it can.
std::string refusal_of_lanes(std::span<const std::string> names);

// A part of a value: what a tensor holds.
struct Piece {
  ValueId value;
  RegionId rows;
  ColumnRange columns;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// 32 bytes; two to a cache line.
struct Task {
  TaskKind kind : 4 = TaskKind::Attend;
  Lane lane : 3 = Lane::Compute;
  // Send and Receive: posted together with the task before it in its lane, as one group whose
  // members progress and complete together (an NCCL group, a batch of isend/irecv). Set for all
  // members of a repack except the first.
  bool with_previous : 1 = false;
  // A bit for each output: it holds all terms of its cells, not a part of them.
  std::uint8_t completes : 2 = 0;
  std::uint16_t worker_index = 0;
  Step step = 0;
  WorkId work;    // how much there is to do: an index into Plan::works
  PieceId piece;  // what it makes (first), sends or puts out: an index into Plan::pieces
  union {
    RegionId keys;        // attends: the keys met, a part of what the input of the inner axis holds
    TaskId peer;          // Send, Receive: the other half; none in a broken plan
    ExchangeId exchange;  // Exchange, Repack: an index into Plan::exchanges, or Plan::repacks
  };
  std::array<TensorId, 3> inputs{};  // in the order given at TaskKind; the rest are none

  constexpr Task() : keys() {}
  WorkerId worker() const { return {worker_index}; }
  bool completes_output(std::uint32_t index = 0) const { return completes >> index & 1; }
};
static_assert(sizeof(Task) == 32);

// The exact size of a task. Few are distinct, so code that prices tasks prices each of these once.
struct Work {
  std::int64_t rows = 0;  // query rows of an attend; rows moved or merged otherwise
  std::int64_t keys = 0;  // attends only, like the next two
  Pairs pairs;            // of one head
  TileForm form = TileForm::Empty;
  std::uint32_t columns = 0;  // query heads of an attend; columns moved or merged otherwise
  Bytes bytes;  // what a transfer carries; what a merge, reduce, prepare or output reads of
                // inputs[1 or 0]

  friend bool operator==(const Work&, const Work&) = default;
};

// A tensor that exists before anything runs, at home on its owner.
struct InitialTensor {
  PieceId piece;
  WorkerId worker;
};

// Some workers pool what they have of a value, and each takes what it wants. The cells of complete
// tensors are copied, and no two members give the same ones; parts of a sum are added up into
// complete results. All members have the same value and lane, and none does anything else on that
// lane meanwhile. A member that gets nothing has a piece without rows.
struct Exchange {
  TaskId first;  // of the members' tasks, which have consecutive ids
  std::uint32_t members = 0;
  std::uint32_t end() const { return first.value + members; }
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

// A repack does the same on one worker: it joins tensors there, cuts them, or adds up parts of a
// sum, on the compute lane. If it adds up, a member may get a part of a sum, too.

// `after` may not start before `before`, of the same worker, has ended.
struct ControlEdge {
  TaskId before;
  TaskId after;
  friend bool operator==(const ControlEdge&, const ControlEdge&) = default;
};

// The tensor that `receive` brings in goes into receive buffer `slot` of its worker and value.
struct BufferSlot {
  TaskId receive;
  std::uint32_t slot = 0;
  friend bool operator==(const BufferSlot&, const BufferSlot&) = default;
};

struct Tensor {
  ValueId value;
  WorkerId worker;
  RegionId rows;
  ColumnRange columns;
  TaskId producer;  // none: an initial tensor
  bool complete = false;
};

// The most tasks of any plan; they fill 8 GiB. The builder and the reader of plan files refuse more
// before they allocate memory; verify() and simulate() refuse such a plan from elsewhere.
inline constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 28;

struct Plan {
  Problem problem;
  Program program;
  Layout layout;
  std::string schedule;  // the name of what built it, for people
  // How many heads of the problem are padding, so that all split evenly. They cost what any head
  // costs, but nobody wants their results, and shares of the work do not count them.
  std::uint32_t dummy_heads = 0, dummy_kv_heads = 0;
  std::vector<std::string> lanes{kBasicLanes.begin(), kBasicLanes.end()};  // their names, by Lane
  std::vector<Region> regions;
  std::vector<Piece> pieces;
  std::vector<Work> works;
  std::vector<InitialTensor> initial;
  TaskArray tasks;
  std::vector<Exchange> exchanges;    // sorted by first
  std::vector<Exchange> repacks;      // likewise
  std::vector<ControlEdge> controls;  // sorted by (after, before)
  std::vector<BufferSlot> slots;      // sorted by receive; empty: as many buffers as it takes

  std::uint32_t wanted_heads() const { return problem.heads - dummy_heads; }
  Problem without_padding() const {
    Problem p = problem;
    p.heads -= dummy_heads;
    p.kv_heads -= dummy_kv_heads;
    return p;
  }
  const Piece& piece(const Task& t) const { return pieces[t.piece.value]; }
  const Piece& piece(const InitialTensor& t) const { return pieces[t.piece.value]; }
  ValueId value(const Task& t) const { return piece(t).value; }
  RegionId rows(const Task& t) const { return piece(t).rows; }
  // All members of the exchange, or repack, that this task is a member of.
  const Exchange& exchange(const Task& t) const {
    return (is_repack(t.kind) ? repacks : exchanges)[t.exchange.value];
  }
  std::string_view name(ValueId v) const { return program[v].name; }
  std::string_view name(Lane l) const { return lanes[static_cast<std::size_t>(l)]; }
  std::uint32_t lane_count() const { return static_cast<std::uint32_t>(lanes.size()); }

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
      const Piece& p = piece(t);
      return {p.value, t.worker, p.rows, p.columns, maker, true};
    }
    const Task& task = tasks[maker.value];
    const std::uint32_t index = id == output(maker) ? 0 : 1;
    const Piece p = index == 0 ? piece(task) : second_piece(task);
    return {p.value, task.worker(), p.rows, p.columns, maker, task.completes_output(index)};
  }
  Bytes bytes(ValueId v, RegionId rows) const {
    return program.bytes(v, layout.rows(regions[rows.value]));
  }
  Bytes bytes(const Piece& p) const {
    return program.bytes(p.value, layout.rows(regions[p.rows.value]), p.columns.count);
  }

  Piece second_piece(const Task&) const;  // what the second output holds

  // Does the worker of this attend have its queries without a message for it? They are given to it,
  // or an exchange has brought them, or all workers have them (decoding).
  bool has_own_queries(const Task& attend) const;
};

// Numbers the lanes of all workers, worker by worker, for tables with an entry for each.
struct LaneNumbers {
  explicit LaneNumbers(const Plan& plan)
      : per_worker(plan.lane_count()), all(plan.problem.workers * per_worker) {}
  std::uint32_t of(WorkerId w, Lane l) const {
    return w.value * per_worker + static_cast<std::uint32_t>(l);
  }
  std::uint32_t of(const Task& t) const { return of(t.worker(), t.lane); }
  Lane lane(std::uint32_t number) const { return static_cast<Lane>(number % per_worker); }
  WorkerId worker(std::uint32_t number) const { return {number / per_worker}; }

  std::uint32_t per_worker, all;
};

}  // namespace ringsched
