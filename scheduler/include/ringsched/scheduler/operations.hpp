// What tasks do. All that the rest of the library needs to know of an operation stands in one row
// of the table at the end.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ringsched {

enum class TaskKind : std::uint8_t {
  Attend,          // query, key_value -> partial
  AttendBackward,  // query, prepared_gradient, key_value -> query_gradient, key_value_gradient
  Prepare,         // partial (complete), output_gradient -> prepared_gradient
  Merge,           // two pieces of a softmax value -> both combined through their log-sum-exp
  Reduce,          // two pieces of a sum -> their sum
  Send,            // a tensor, to the worker of `peer`
  Receive,         // the tensor sent by `peer`, on this worker
  Output,          // a complete tensor becomes a result of the whole computation
};
inline constexpr std::uint32_t kTaskKinds = 8;

struct Operation {
  enum class Does : std::uint8_t {
    Compute,   // terms of a statement, from complete operands
    Combine,   // puts pieces of one value together
    Transfer,  // moves a piece
    Deliver,
  };
  // Which input gives the rows of the task, where a plan file leaves them out.
  enum class Rows : std::uint8_t { First, Second, Both /* together */, Peer };

  std::string_view name;
  Does does = Does::Compute;
  std::uint8_t inputs = 0;
  std::uint8_t outputs = 0;
  std::uint8_t inner = kNoInner;  // this input has the inner axis as its rows
  Rows rows = Rows::First;
  std::uint8_t sized_by = 0;  // the bytes of this input are the task's work

  static constexpr std::uint8_t kNoInner = 3;
};

inline constexpr std::array<Operation, kTaskKinds> kOperations = [] {
  using enum Operation::Does;
  using enum Operation::Rows;
  constexpr std::uint8_t none = Operation::kNoInner;
  return std::array<Operation, kTaskKinds>{{
      {"attend", Compute, 2, 1, 1, First, 0},
      {"attend_backward", Compute, 3, 2, 2, First, 0},
      {"prepare", Compute, 2, 1, none, Second, 1},
      {"merge", Combine, 2, 1, none, Both, 1},
      {"reduce", Combine, 2, 1, none, Both, 1},
      {"send", Transfer, 1, 0, none, First, 0},
      {"receive", Transfer, 0, 1, none, Peer, 0},
      {"output", Deliver, 1, 0, none, First, 0},
  }};
}();
constexpr const Operation& operation(TaskKind k) {
  return kOperations[static_cast<std::size_t>(k)];
}
constexpr bool is_attend(TaskKind k) { return operation(k).inner != Operation::kNoInner; }
constexpr bool is_transfer(TaskKind k) { return operation(k).does == Operation::Does::Transfer; }
constexpr bool is_combine(TaskKind k) { return operation(k).does == Operation::Does::Combine; }
// The number of tensors a task makes.
constexpr std::uint32_t outputs_of(TaskKind k) { return operation(k).outputs; }
constexpr std::string_view to_text(TaskKind k) { return operation(k).name; }

}  // namespace ringsched
