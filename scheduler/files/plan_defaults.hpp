// What the reader and the writer of plan files must agree on: the names of fields, and a field's
// default. The writer leaves out exactly what these return.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched::plan_file {

inline constexpr std::string_view kFormat = "ringsched-plan";
// simdjson counts bytes in 32 bits and needs some room after the text.
inline constexpr std::size_t kMaxBytes = 0xffffffff - 64;

// What files call the tensors of a given value.
inline constexpr std::array<std::pair<ValueId, std::string_view>, 4> kInitialNames = {
    {{attention::kQuery, "Q"},
     {attention::kKeyValue, "KV"},
     {attention::kOutputGradient, "dO"},
     {attention::kPartial, "O"}}};

// An initial tensor.
struct Given {
  ValueId value;
  WorkerId worker;
  Region rows;
  ColumnRange heads;
  friend bool operator==(const Given&, const Given&) = default;
};
bool is_given(const Plan&, ValueId);
// The rows of a given value that a worker has by default.
Region given_rows(const Plan&, ValueId, WorkerId);
// By default: all of each value, at home.
std::vector<Given> default_given(const Plan&);

// How files distinguish those of one value and worker: "Q3" is the first that the plan lists,
// "Q3.1" the next.
class GivenTensors {
 public:
  explicit GivenTensors(const Plan&);
  std::span<const TensorId> of(ValueId v, WorkerId w) const {
    return ids_[std::size_t{v.value} * workers_ + w.value];
  }
  std::string name(const Plan&, TensorId) const;

 private:
  std::size_t workers_;
  std::vector<std::vector<TensorId>> ids_;  // by value and worker
};

// These need the kind, the inputs and, of a receive, the peer of a task; inputs must be earlier
// tensors.
Region default_rows(const Plan&, const Task&);
Region default_keys(const Plan&, const Task&);
ValueId default_value(const Plan&, const Task&);
// Of a piece of this value; a plan may lack the input.
ColumnRange default_heads(const Plan&, const Task&, ValueId);
// This one needs the kind and what the task makes.
Lane default_lane(const Plan&, const Task&);
bool has_outputs(const Plan&);  // else the reader adds them, unless the file forbids it
// By task, as in Task::completes, for all tasks: a result is complete if an output reads it.
std::vector<std::uint8_t> default_completes(const Plan&);

}  // namespace ringsched::plan_file
