// What a schedule is written against. A schedule is a plain function that says, step by step, who
// attends what and what moves where, in the order its figure is read:
//
//   plan.step(s);                                    what follows belongs to step s
//   Keys kv = plan.move(plan.keys(owner), worker);   first all that moves ...
//   Partial p = plan.attend(plan.queries(w), kv);    ... then all that is computed
//   plan.merge(p);                                   on the owner of the queries
//
// The builder makes ids and sizes, pairs sends with receives, groups what one worker posts
// together, leaves out what the mask empties and what nobody will read, and derives the backward
// pass from the same calls: dQ goes where the partial went, and the gradient of a copy of keys
// travels on with the copy, or home from where it is used last.
//
// To know what will be read, the builder runs the schedule twice: a survey first, then the writing.
// A schedule must therefore make the same calls each time, and hand keys on only after their last
// use.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/work_table.hpp"

namespace ringsched {

// Queries or keys of one owner, at `worker`. A handle may be narrowed to one chunk of the share.
struct Operand {
  WorkerId owner;
  WorkerId worker;
  Region view;               // chunks meant; the tensor behind may hold more
  RegionId view_id;          // none: to be looked up
  std::uint32_t copy = ~0u;  // the move that brought it here; ~0u: at home
  TensorId tensor;           // set while writing
  TensorId gradient;         // queries in the backward pass: the prepared gradient beside them

  bool at_home() const { return copy == ~0u; }
  bool valid() const { return worker.valid(); }
};

struct Queries : Operand {
  Queries part(std::uint32_t i) const;  // the i-th chunk
};
struct Keys : Operand {
  Keys part(std::uint32_t i) const;
};

// What an attend made for the queries: a partial result, or in the backward pass their gradient.
struct Partial {
  WorkerId owner;
  WorkerId worker;
  RegionId region;
  TensorId tensor;

  bool valid() const { return worker.valid(); }
};

class PlanBuilder {
 public:
  PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks = kMostTasks);

  Queries queries(WorkerId) const;  // the whole share of a worker, at home
  Keys keys(WorkerId) const;
  bool sees(const Queries&, const Keys&) const;  // is any pair visible?

  void step(Step);

  // The same on worker `to`; nothing moves if it is there already, or is none.
  Queries move(const Queries&, WorkerId to);
  Keys move(const Keys&, WorkerId to);
  Partial move(const Partial&, WorkerId to);

  // None where the mask hides every pair. Both operands must be on one worker.
  Partial attend(const Queries&, const Keys&);
  // Folds a partial into the result of its queries. It must be on their owner; none does nothing.
  void merge(const Partial&);

  // Used by build_plan(), not by schedules.
  enum class Mode : std::uint8_t { Survey, Forward, Backward };
  void begin(Mode);
  void end();
  Plan finish(std::string_view schedule) &&;

 private:
  // What the survey learnt of one move of queries or keys.
  struct Copy {
    std::uint32_t parent = ~0u;        // the copy it was moved from; ~0u: from home
    std::uint32_t first = 0, end = 0;  // chunks that are read here or later on; none if equal

    bool used() const { return first != end; }
  };
  // For the backward pass: where a copy of keys goes on to, and when. Attends are counted as
  // surveyed.
  struct CopyPath {
    std::uint32_t attends_when_moved = 0;
    std::uint32_t last_attend = ~0u;
    std::uint32_t onward = ~0u;  // the last copy made from this one that is used
    std::uint32_t attends_when_moved_on = 0;
  };
  struct Accumulator {
    TensorId tensor;
    RegionId region;
  };
  struct Arrival {  // a key gradient that came home, to be added once this step's attends are done
    WorkerId owner;
    TensorId tensor;
    RegionId region;
  };

  bool has_backward() const { return plan_.problem.pass != Pass::Forward; }
  RegionId region_id(Region);
  RegionId add_region(Region);
  // A view is a whole share or one chunk of it.
  RegionId view_id(const Operand& x) const {
    return x.view_id.valid() ? x.view_id : single_[x.view.first.value];
  }
  Tile tile(const Operand& queries, const Operand& keys) const;
  WorkId work_of_rows(TensorKind, RegionId);
  Task& add(TaskKind, TensorKind makes, WorkerId, RegionId, WorkId, Lane = Lane::Compute);
  TensorId last_output(std::uint32_t index = 0) const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1}, index);
  }
  TensorId transfer(TensorId, TensorKind, RegionId, WorkerId from, WorkerId to, Lane);
  void accumulate(TaskKind, TensorKind, WorkerId, Accumulator&, TensorId, RegionId);

  std::optional<RegionId> start_move(const Operand& from, Operand& moved, WorkerId to);
  void survey_move(const Operand& from);
  Partial survey_attend(const Operand& queries, const Operand& keys);
  void mark_used(std::uint32_t copy, Region view, std::uint64_t& moves);
  void add_key_gradient(const Keys&, TensorId, RegionId);
  void hand_on_gradient(const Keys& from, const Keys& to);
  void send_gradients_home();
  void add_arrived_gradients();
  void prepare_gradients();
  void write_outputs(TensorKind, const std::vector<Accumulator>&);

  Plan plan_;
  std::uint64_t most_tasks_;
  Mode mode_ = Mode::Survey;
  Step step_ = 0;
  Step first_step_ = 0;  // of the pass being written
  Step last_step_ = 0;
  std::vector<Copy, PageAllocator<Copy>> copies_;
  std::vector<CopyPath> paths_;  // by copy; empty where only the forward pass is wanted
  std::uint32_t next_copy_ = 0;
  std::vector<WorkId, PageAllocator<WorkId>>
      tiles_;                      // by attend call, as surveyed; none where the mask hides it all
  std::uint32_t next_tile_ = 0;    // the attend call that comes next
  std::uint32_t next_attend_ = 0;  // likewise, but only of those that are not hidden
  std::uint64_t surveyed_attends_ = 0, surveyed_returns_ = 0;
  std::uint64_t surveyed_query_moves_ = 0, surveyed_key_moves_ = 0;

  std::vector<Accumulator> result_;             // per worker: O, or dQ
  std::vector<Accumulator> final_result_;       // per worker: the forward pass's O, for prepare
  std::vector<TensorId> prepared_;              // per worker
  std::vector<Accumulator> home_key_gradient_;  // per worker
  std::vector<Accumulator> copy_key_gradient_;  // per copy
  std::vector<Keys> finished_keys_;             // copies whose gradient goes home next step
  std::vector<Arrival> arrived_;
  std::vector<Step> posted_;  // per worker and lane: 1 + the step of a group still open; 0: none

  std::vector<RegionId> single_, share_from_;  // by chunk: it alone; the share of several it begins
  std::unordered_map<std::uint64_t, RegionId> other_regions_;
  std::vector<TokenSet> token_sets_;  // by region
  WorkTable works_;
  std::array<std::vector<WorkId>, kTensorKinds> row_works_;  // by region; none: not asked for yet
};

}  // namespace ringsched
