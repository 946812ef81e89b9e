// What a plan file says is given, and its tasks, one after the other, into a plan whose problem and
// layout are there already.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan_defaults.hpp"
#include "plan_json.hpp"
#include "ringsched/scheduler/piece_table.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/region_table.hpp"
#include "ringsched/scheduler/work_table.hpp"

namespace ringsched::plan_file {

inline constexpr std::array<std::string_view, 17> kTaskFields = {
    "do",   "worker",        "step",  "in",   "from",  "to",    "rows",  "keys",    "tensor",
    "lane", "with_previous", "after", "slot", "bytes", "pairs", "heads", "complete"};
inline constexpr std::size_t kTaskFieldsOfVersion1 = 15;
using TaskFields = Fields<kTaskFields>;

class PlanReader {
 public:
  PlanReader(std::string_view file, int version, Plan& plan);

  // To be called in this order.
  void add(const Given&);
  void read_given(dom::array);
  void read_tasks(dom::array);
  // For a file without any output task: one for each result that is at home and not read again.
  void add_outputs();
  void mark_complete();

 private:
  void read_task(const TaskFields&);
  void read_inputs(const Where&, dom::element, Task&);
  TensorId reference(const Where&, dom::element);
  TensorId named_tensor(const Where&, std::string_view text);
  TensorId given_tensor(const Where&, std::string_view text, ValueId, std::uint32_t worker,
                        std::uint32_t index);
  TensorId output_of(const Where&, std::int64_t task, std::uint32_t index);
  TaskId earlier_task(const Where&, std::string_view field, dom::element);
  void check_input_kinds(const Where&, const Task&);
  void read_sender(const Where&, dom::element, Task&);
  void read_worker(const TaskFields&, Task&);
  void read_what_moves(const TaskFields&, Task&);
  void read_order(const TaskFields&, Task&);
  void read_completion(const TaskFields&, TaskKind);
  std::int64_t last_worker() const { return plan_.problem.workers - 1; }
  Region region(const Where&, std::string_view field, dom::element) const;
  ColumnRange heads(const Where&, dom::element, ValueId) const;
  void measure(const TaskFields&, Task&);
  WorkId work_of_attend(const Piece& made, RegionId keys);
  WorkId work_of_rows(const Piece&);
  ValueId named_value(const Where&, dom::element) const;
  void append(const Task&);

  std::string_view file_;
  int version_;
  Plan& plan_;
  std::optional<GivenTensors> given_;
  RegionTable regions_;
  PieceTable pieces_;
  WorkTable works_;
  std::vector<std::int64_t> rows_before_;                   // by chunk
  std::unordered_map<std::uint64_t, Tile> costly_tiles_;    // by both regions: many chunks
  std::uint64_t count_ = 0;                                 // tasks in the file
  Step step_ = 0;                                           // of the task before
  std::vector<WorkerId> to_;                                // by task: what a send says
  std::unordered_map<std::uint32_t, std::uint8_t> stated_;  // by task: what it says is complete
};

}  // namespace ringsched::plan_file
