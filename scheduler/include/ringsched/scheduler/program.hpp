// What a plan computes, as if on one device: values, and the statements that add to them. Each cell
// (row, column) of a value is a sum over the inner axis of its statements, with each term exactly
// once: an attention output is a sum over keys, a gradient a sum over queries. A Program knows no
// workers and no time; those are in the Plan.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/operations.hpp"
#include "ringsched/scheduler/problem.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

// How the terms of a cell add up.
enum class Algebra : std::uint8_t {
  Plus,
  Softmax,  // weighted means, each with the logarithm of the sum of its weights (log-sum-exp)
};

// The numbers of one matrix of a type.
enum class Element : std::uint8_t { Stored /* the problem's dtype */, Fp32 };
std::int64_t element_bytes(Element, Dtype stored);

// One of the matrices that travel together as one tensor.
struct Part {
  std::string_view name;
  Element element = Element::Stored;
  bool scalar = false;  // one number for each row and column; else as many as a column is wide
};

enum class TypeId : std::uint8_t {
  Rows,           // a matrix
  KeysValues,     // keys, and values beside them
  Softmax,        // a partial attention output with its log-sum-exp
  Prepared,       // an output gradient with the final log-sum-exp and delta = rowsum(dO * O)
  RowsSum,        // a sum of matrices
  KeysValuesSum,  // a sum of key gradients, and one of value gradients
};

// What the tensors of a value are made of. The order of parts is their order in memory.
struct Type {
  std::string_view name;
  std::span<const Part> parts;
  Algebra algebra;
  TypeId gradient;  // what the gradient of such a value is made of
  TypeId rounded;   // its parts in the problem's dtype
};
const Type& type_of(TypeId);

// The columns of a value. Key/value heads are an axis of their own: `group` query heads read each.
struct Axis {
  std::string_view name;
  std::uint32_t count = 0;
  std::uint32_t width = 1;  // elements in each column
  std::uint32_t group = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// Consecutive columns, [first, first + count).
struct ColumnRange {
  std::uint32_t first = 0, count = 0;

  std::uint32_t end() const { return first + count; }
  bool contains(ColumnRange c) const { return first <= c.first && c.end() <= end(); }
  // The columns that these read of an axis with one column for each `group` of these.
  ColumnRange grouped(std::uint32_t group) const {
    return {first / group, (end() - 1) / group - first / group + 1};
  }
  friend bool operator==(const ColumnRange&, const ColumnRange&) = default;
};

// A named logical tensor: rows are tokens.
struct Value {
  std::string name;
  std::string symbol;  // a few letters, for pictures and tables
  std::string words;   // what the symbol means, for people; empty: it explains itself
  TypeId type = TypeId::Rows;
  Axis columns;
  std::int64_t column_bytes = 0;  // of one row and column, all parts
  bool is_sum = false;  // its tensors may hold a part of the terms; else they are complete

  ColumnRange all_columns() const { return {0, columns.count}; }
  friend bool operator==(const Value&, const Value&) = default;
};

// One way in which terms of a value arise. A task of a plan belongs to the statement with its op,
// the values it reads and the value it makes.
struct Statement {
  TaskKind op = TaskKind::Attend;
  std::array<ValueId, 3> inputs{};   // as many as the op reads
  std::array<ValueId, 2> outputs{};  // as many as it makes
  bool asked = true;                 // the requested results need its terms
};

struct Program {
  Dtype dtype = Dtype::Bf16;  // of what is stored
  std::vector<Value> values;
  std::vector<Statement> statements;
  std::vector<ValueId> given;  // complete before anything runs
  std::vector<ValueId> asked;  // the results of the whole computation

  const Value& operator[](ValueId id) const { return values[id.value]; }
  const Type& type(ValueId id) const { return type_of(values[id.value].type); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(values.size()); }
  ValueId find(std::string_view name) const;  // none if no value has it
  // What a value is rounded from; itself if it is not rounded.
  ValueId unrounded(ValueId) const;
  ValueId rounded(ValueId) const;  // the value that has it rounded; none if there is none
  // The statement with this op that makes this value, or null.
  const Statement* statement(TaskKind op, ValueId made) const;
  // Of a tensor with this many rows and columns.
  Bytes bytes(ValueId v, Tokens rows, std::uint32_t columns) const {
    return {rows.value * columns * values[v.value].column_bytes};
  }
  Bytes bytes(ValueId v, Tokens rows) const { return bytes(v, rows, (*this)[v].columns.count); }
};

// Adds a value; its bytes follow from its type and columns.
ValueId add_value(Program&, Value);
// Adds a value with the numbers of another, rounded to the problem's dtype once they are complete,
// and the statement that makes it. It has no log-sum-exp. It may replace the other as a result, and
// exchanges of results send it.
ValueId add_rounded(Program&, ValueId of);
// Sets Value::is_sum and Statement::asked, which follow from the rest.
void mark_sums_and_needs(Program&);
// The same program with the gradients of everything given: for each result an additional given
// gradient, for each value its gradient, and for each reading of a value a statement that adds to
// it. This alone defines what a pass is.
Program with_gradients(Program);

// The attention of a Problem: its values have these places, whatever its pass.
namespace attention {
inline constexpr ValueId kQuery{0};             // Q
inline constexpr ValueId kKeyValue{1};          // K and V
inline constexpr ValueId kPartial{2};           // O, with its log-sum-exp
inline constexpr ValueId kOutputGradient{3};    // dO
inline constexpr ValueId kPreparedGradient{4};  // dO, with what each attend also needs
inline constexpr ValueId kQueryGradient{5};     // dQ
inline constexpr ValueId kKeyValueGradient{6};  // dK and dV
inline constexpr ValueId kRoundedPartial{7};
inline constexpr ValueId kRoundedQueryGradient{8};
inline constexpr ValueId kRoundedKeyValueGradient{9};
}  // namespace attention

Program program_of(const Problem&);

}  // namespace ringsched
