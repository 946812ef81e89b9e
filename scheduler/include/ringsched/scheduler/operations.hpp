// What tasks do. One row of the table at the end has everything that the rest of the library needs
// to know of an operation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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
  Round,           // a complete result -> the same as the problem's dtype has it
  Exchange,        // one member of an exchange: gives a tensor or none, gets one or none
  Repack,          // likewise one of several tasks of one worker, which join or cut its tensors
};
inline constexpr std::uint32_t kTaskKinds = 11;

// One statement that a program's gradients need for each use of an operation. It reads some inputs
// of the operation, and the gradient of its result, and adds to gradients of inputs.
struct Adjoint {
  static constexpr std::uint8_t kGradient = 3;  // of what the operation makes

  TaskKind op;
  std::array<std::uint8_t, 3> reads;        // inputs of the operation, by number, or kGradient
  std::array<std::uint8_t, 2> gradient_of;  // for each output of `op`: an input of the operation
};

struct Operation {
  enum class Does : std::uint8_t {
    Compute,   // terms of a statement, from complete operands
    Combine,   // puts pieces of one value together
    Transfer,  // moves a piece
    Deliver,
    Exchange,  // one of several that are done together, on different workers
    Repack,    // likewise, on one worker
  };
  // Which input gives the default of a task's `rows` in a plan file.
  enum class Rows : std::uint8_t { First, Second, Both /* together */, Peer, Said /* always */ };
  static constexpr std::uint8_t kNone = 3;

  std::string_view name;
  Does does = Does::Compute;
  std::uint8_t inputs = 0;
  std::uint8_t outputs = 0;
  std::uint8_t inner = kNone;  // this input has the inner axis as its rows
  Rows rows = Rows::First;
  std::uint8_t sized_by = 0;            // the bytes of this input are the task's work
  std::uint8_t overwrites = kNone;      // the output takes the place of this input if it fits
  std::span<const Adjoint> adjoints{};  // Output's are for the results of a program
};

inline constexpr Adjoint kAdjointsOfAttend[] = {
    {TaskKind::AttendBackward, {0, Adjoint::kGradient, 1}, {0, 1}}};
// The gradient of a softmax value is prepared where its result is taken, so that no attend needs
// the result itself again.
inline constexpr Adjoint kAdjointsOfOutput[] = {
    {TaskKind::Prepare, {0, Adjoint::kGradient, 0}, {0, 0}}};

inline constexpr std::array<Operation, kTaskKinds> kOperations = [] {
  using enum Operation::Does;
  using enum Operation::Rows;
  constexpr std::uint8_t none = Operation::kNone;
  return std::array<Operation, kTaskKinds>{{
      {"attend", Compute, 2, 1, 1, First, 0, none, kAdjointsOfAttend},
      {"attend_backward", Compute, 3, 2, 2, First, 0},
      {"prepare", Compute, 2, 1, none, Second, 1},
      {"merge", Combine, 2, 1, none, Both, 1, 0},
      {"reduce", Combine, 2, 1, none, Both, 1, 0},
      {"send", Transfer, 1, 0, none, First, 0},
      {"receive", Transfer, 0, 1, none, Peer, 0},
      {"output", Deliver, 1, 0, none, First, 0, none, kAdjointsOfOutput},
      {"round", Compute, 1, 1, none, First, 0},
      {"exchange", Operation::Does::Exchange, 1, 1, none, Said, 0},
      {"repack", Operation::Does::Repack, 1, 1, none, Said, 0},
  }};
}();
constexpr const Operation& operation(TaskKind k) {
  return kOperations[static_cast<std::size_t>(k)];
}

// Sets of operations, as bits, because passes ask this of every task many times.
constexpr std::uint32_t operations_where(bool (*holds)(const Operation&)) {
  std::uint32_t set = 0;
  for (std::uint32_t k = 0; k < kTaskKinds; ++k)
    if (holds(kOperations[k])) set |= 1u << k;
  return set;
}
inline constexpr std::uint32_t kAttends =
    operations_where([](const Operation& o) { return o.inner != Operation::kNone; });
inline constexpr std::uint32_t kBackwardAttends = operations_where(
    [](const Operation& o) { return o.inner != Operation::kNone && o.outputs > 1; });
inline constexpr std::uint32_t kTransfers =
    operations_where([](const Operation& o) { return o.does == Operation::Does::Transfer; });
inline constexpr std::uint32_t kSends = operations_where(
    [](const Operation& o) { return o.does == Operation::Does::Transfer && o.inputs > 0; });
inline constexpr std::uint32_t kReceives = kTransfers & ~kSends;
inline constexpr std::uint32_t kCombines =
    operations_where([](const Operation& o) { return o.does == Operation::Does::Combine; });
inline constexpr std::uint32_t kExchanges =
    operations_where([](const Operation& o) { return o.does == Operation::Does::Exchange; });
inline constexpr std::uint32_t kRepacks =
    operations_where([](const Operation& o) { return o.does == Operation::Does::Repack; });
inline constexpr std::uint32_t kOutputs =
    operations_where([](const Operation& o) { return o.does == Operation::Does::Deliver; });

constexpr bool is_in(std::uint32_t set, TaskKind k) {
  return (set >> static_cast<unsigned>(k) & 1u) != 0;
}
constexpr bool is_attend(TaskKind k) { return is_in(kAttends, k); }
constexpr bool is_backward(TaskKind k) { return is_in(kBackwardAttends, k); }
constexpr bool is_transfer(TaskKind k) { return is_in(kTransfers, k); }
constexpr bool is_send(TaskKind k) { return is_in(kSends, k); }
constexpr bool is_receive(TaskKind k) { return is_in(kReceives, k); }
constexpr bool is_combine(TaskKind k) { return is_in(kCombines, k); }
constexpr bool is_exchange(TaskKind k) { return is_in(kExchanges, k); }
constexpr bool is_repack(TaskKind k) { return is_in(kRepacks, k); }
// A member of an exchange or of a repack.
constexpr bool is_member(TaskKind k) { return is_in(kExchanges | kRepacks, k); }
// A task that moves something between workers.
constexpr bool communicates(TaskKind k) { return is_in(kTransfers | kExchanges, k); }
constexpr bool is_output(TaskKind k) { return is_in(kOutputs, k); }
// The number of tensors a task makes.
constexpr std::uint32_t outputs_of(TaskKind k) { return operation(k).outputs; }
constexpr std::string_view to_text(TaskKind k) { return operation(k).name; }

}  // namespace ringsched
