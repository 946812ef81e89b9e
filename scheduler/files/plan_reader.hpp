// Reads a plan file's given tensors and its tasks, one after the other, into a plan that has its
// problem and layout already.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan_defaults.hpp"
#include "plan_json.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched::plan_file {

inline constexpr std::array<std::string_view, 18> kTaskFields = {
    "do",   "worker",        "step",  "in",   "from",  "to",    "rows",  "keys",     "tensor",
    "lane", "with_previous", "after", "slot", "bytes", "pairs", "heads", "complete", "members"};
inline constexpr std::size_t kTaskFieldsOfVersion1 = 15;
using TaskFields = Fields<kTaskFields>;

class PlanReader {
 public:
  PlanReader(std::string_view file, int version, Plan& plan);

  // Call these in this order.
  void add(const Given&);
  void read_given(dom::array);
  void read_tasks(dom::array);
  // For a file without any output task: one for each result that is at home and not read again.
  void add_outputs();
  void mark_complete();

 private:
  void read_task(const TaskFields&);
  TaskKind read_kind(const TaskFields&) const;
  void read_membership(const TaskFields&, Task&);
  std::vector<Exchange>& members_of(TaskKind k) {
    return is_repack(k) ? plan_.repacks : plan_.exchanges;
  }
  void read_inputs(const Found&, Task&);
  TensorId reference(const Where&, dom::element);
  TensorId named_tensor(const Where&, std::string_view text);
  TensorId given_tensor(const Where&, std::string_view text, ValueId, std::uint32_t worker,
                        std::uint32_t index);
  TensorId output_of(const Where&, std::int64_t task, std::uint32_t index);
  TaskId earlier_task(const Found&) const;
  void check_input_kinds(const Where&, const Task&);
  void read_sender(const Found&, Task&);
  void read_worker(const TaskFields&, Task&);
  void read_what_moves(const TaskFields&, Task&);
  void read_order(const TaskFields&, Task&);
  void read_completion(const TaskFields&, TaskKind);
  WorkerId worker(const Found&) const;
  Region region(const Found&) const;
  Region read_rows(const Found&, TaskKind) const;
  ColumnRange heads(const Found&, ValueId) const;
  TaskId next_task() const { return {static_cast<std::uint32_t>(plan_.tasks.size())}; }
  void measure(const TaskFields&, Task&);
  WorkId work_of_attend(const Piece& made, RegionId keys);
  WorkId work_of_rows(const Piece&);
  ValueId named_value(const Found&) const;

  std::string_view file_;
  int version_;
  Plan& plan_;
  std::optional<GivenTensors> given_;
  PlanTables tables_;
  std::vector<std::int64_t> rows_before_;                    // by chunk
  std::unordered_map<std::uint64_t, Tile> costly_tiles_;     // by both regions: many chunks
  std::int64_t count_ = 0;                                   // tasks in the file
  Step step_ = 0;                                            // of the task before
  std::vector<WorkerId> to_;                                 // by task: fields of a send
  std::vector<std::pair<TaskId, std::uint32_t>> completes_;  // `complete` as tasks state it
};

}  // namespace ringsched::plan_file
