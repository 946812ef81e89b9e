// Writes a plan anew without its exchanges: its tasks, one after the other, and the tasks that
// replace exchanges.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

// Some rows and columns of a value.
struct CellRange {
  Region rows;
  ColumnRange columns;

  bool empty() const { return rows.count == 0 || columns.count == 0; }
  friend bool operator==(const CellRange&, const CellRange&) = default;
};

class LoweredPlan {
 public:
  explicit LoweredPlan(const Plan& from);

  // Copies a task that is not a member of an exchange.
  void copy(TaskId);
  // What a tensor of the old plan has become. Writes the join that makes it now, if there is one.
  TensorId use(TensorId old);
  Plan finish() &&;

  // --- the tasks of one exchange

  void begin_exchange(const Exchange&);
  // The calls up to the next one of this are one group on each worker.
  void begin_group() { ++group_; }
  // These cells of the tensor, on another worker.
  TensorId transfer(TensorId, const CellRange&, WorkerId to);
  // Cuts a part of a sum.
  std::vector<TensorId> cut(TensorId, std::span<const CellRange>);
  TensorId add_up(TensorId, TensorId);                    // of the same cells
  void complete(TensorId t) { mark_complete(plan_, t); }  // it has all terms
  // These hold everything that this member should get: its tensor is made of them, when it is
  // needed.
  void deliver(TaskId member, std::vector<TensorId> parts);
  void end_exchange();

  CellRange cells(TensorId t) const {
    const Tensor tensor = plan_.tensor(t);
    return {plan_.regions[tensor.rows.value], tensor.columns};
  }
  WorkerId worker(TensorId t) const { return plan_.tensor(t).worker; }

 private:
  static constexpr Step kNever = ~Step{0};
  struct Join {      // to be written
    TensorId makes;  // of the old plan
    std::vector<TensorId> parts;
    bool written = false;
  };

  void find_first_uses();
  void begin_step(Step);
  void write(Join&);
  Task& add(TaskKind, WorkerId, Lane, const CellRange&);
  // The members of a repack: what each gives, or none, and gets. Returns the result of the first.
  TensorId repack(WorkerId, std::span<const TensorId> given, std::span<const CellRange> got,
                  bool complete);
  TensorId last() const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1});
  }
  bool is_sum() const { return plan_.program[value_].is_sum; }
  void check_size() const;
  void copy_edges();

  const Plan& from_;
  Plan plan_;
  PlanTables tables_{plan_};
  std::vector<std::int64_t> rows_before_{0};  // tokens in all chunks before
  std::vector<TensorId> became_;              // by tensor of the old plan
  std::vector<std::uint32_t> join_of_;        // likewise: its place in joins_, or none
  std::vector<Step> first_use_;               // likewise
  std::vector<Join> joins_;
  std::map<Step, std::vector<std::uint32_t>> due_;  // joins, by the step that first uses them
  std::vector<std::vector<TaskId>> tasks_of_;       // by task of the old plan: those in its place
  const LaneNumbers lanes_{from_};
  std::vector<std::uint32_t> posted_;  // by lane: the group that its last transfer is of
  std::uint32_t group_ = 0;
  Step step_ = 0;
  // Of the exchange being written:
  const Exchange* exchange_ = nullptr;
  std::uint32_t begin_ = 0;  // its first task
  ValueId value_;
  Lane lane_ = Lane::Fetch;
};

}  // namespace ringsched
