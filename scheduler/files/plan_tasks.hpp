// The "tasks" of a plan file, one after the other, into a plan whose problem, layout and initial
// tensors are there already.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan_json.hpp"
#include "ringsched/scheduler/piece_table.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/work_table.hpp"

namespace ringsched::plan_file {

inline constexpr std::array<std::string_view, 15> kTaskFields = {
    "do",     "worker", "step",          "in",    "from", "to",    "rows", "keys",
    "tensor", "lane",   "with_previous", "after", "slot", "bytes", "pairs"};
enum class TaskField : std::uint8_t {
  Do,
  Worker,
  Step,
  In,
  From,
  To,
  Rows,
  Keys,
  Tensor,
  Lane,
  WithPrevious,
  After,
  Slot,
  Bytes,
  Pairs
};

class TaskReader {
 public:
  TaskReader(std::string_view file, Plan& plan, PieceTable& pieces);

  void read(dom::array tasks);
  // For a file without any output task: one for each result that is at home and not read again.
  void add_outputs();

 private:
  using TaskFields = Fields<kTaskFields.size()>;

  void read_task(const Where&, const TaskFields&);
  void read_inputs(const Where&, dom::element, Task&);
  TensorId reference(const Where&, dom::element);
  TensorId named_tensor(const Where&, std::string_view text);
  TensorId output_of(const Where&, std::int64_t task, std::uint32_t index);
  TaskId earlier_task(const Where&, std::string_view field, dom::element);
  void check_input_kinds(const Where&, const Task&);
  void read_sender(const Where&, dom::element, Task&);
  void read_worker(const Where&, const TaskFields&, Task&);
  void read_what_moves(const Where&, const TaskFields&, Task&);
  void read_order(const Where&, const TaskFields&, Task&);
  RegionId region(const Where&, TaskField, const TaskFields&, bool has_default, const Task&);
  RegionId region_id(Region);
  void measure(const Where&, const TaskFields&, Task&);
  WorkId work_of_tile(RegionId rows, RegionId keys);
  WorkId work_of_rows(ValueId, RegionId);
  ValueId named_value(const Where&, std::string_view text) const;
  void append(const Task&);

  std::string_view file_;
  Plan& plan_;
  PieceTable& pieces_;
  std::uint64_t count_ = 0;                    // tasks in the file
  Step step_ = 0;                              // of the task before
  std::vector<WorkerId> to_;                   // by task: what a send says
  std::vector<std::int64_t> rows_before_;      // by chunk
  std::vector<RegionId> single_, share_from_;  // by chunk: it alone; the share of several it begins
  std::unordered_map<std::uint64_t, std::uint32_t> other_regions_;
  WorkTable works_;
  std::unordered_map<std::uint64_t, WorkId> costly_tiles_;  // by both regions: many chunks
};

}  // namespace ringsched::plan_file
