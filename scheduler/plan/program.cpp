#include "ringsched/scheduler/program.hpp"

#include <algorithm>
#include <utility>

namespace ringsched {

namespace {

constexpr Part kRows[] = {{"x", Element::Stored, false}};
constexpr Part kKeysValues[] = {{"k", Element::Stored, false}, {"v", Element::Stored, false}};
constexpr Part kSoftmax[] = {{"o", Element::Fp32, false}, {"lse", Element::Fp32, true}};
// What is fp32 stands first, so that it is aligned whatever the dtype of the rest.
constexpr Part kPrepared[] = {
    {"lse", Element::Fp32, true}, {"delta", Element::Fp32, true}, {"do", Element::Stored, false}};
constexpr Part kRowsSum[] = {{"x", Element::Fp32, false}};
constexpr Part kKeysValuesSum[] = {{"k", Element::Fp32, false}, {"v", Element::Fp32, false}};

// By TypeId.
constexpr Type kTypes[] = {
    {"rows", kRows, Algebra::Plus},          {"keys_values", kKeysValues, Algebra::Plus},
    {"softmax", kSoftmax, Algebra::Softmax}, {"prepared", kPrepared, Algebra::Plus},
    {"rows_sum", kRowsSum, Algebra::Plus},   {"keys_values_sum", kKeysValuesSum, Algebra::Plus},
};

// By TypeId: what the gradient of such a value is. That of a softmax value is prepared where the
// value was complete, so that nobody needs the value itself again.
constexpr TypeId gradient_type(TypeId type) {
  constexpr TypeId of[] = {TypeId::RowsSum, TypeId::KeysValuesSum, TypeId::Prepared,
                           TypeId::RowsSum, TypeId::RowsSum,       TypeId::KeysValuesSum};
  return of[static_cast<std::size_t>(type)];
}

}  // namespace

const Type& type_of(TypeId id) { return kTypes[static_cast<std::size_t>(id)]; }

std::int64_t element_bytes(Element e, Dtype stored) {
  return e == Element::Fp32 ? 4 : size_of(stored);
}

ValueId Program::find(std::string_view name) const {
  const auto at =
      std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.name == name; });
  if (at == values.end()) return {};
  return {static_cast<std::uint32_t>(at - values.begin())};
}

const Statement* Program::statement(TaskKind op, ValueId made) const {
  const auto at = std::find_if(statements.begin(), statements.end(), [&](const Statement& s) {
    return s.op == op && s.outputs[0] == made;
  });
  return at == statements.end() ? nullptr : &*at;
}

Program program_of(const Problem& p) {
  using namespace attention;
  const Axis heads{"heads", p.heads, p.head_dim, 1};
  const Axis kv_heads{"kv_heads", p.kv_heads, p.head_dim, p.kv_heads ? p.heads / p.kv_heads : 1};
  const bool forward = p.pass != Pass::Backward, backward = p.pass != Pass::Forward;
  Program out;
  out.dtype = p.dtype;
  const auto value = [&](const char* name, const char* symbol, const char* words, TypeId type,
                         const Axis& columns) {
    std::int64_t bytes = 0;
    for (const Part& part : type_of(type).parts)
      bytes +=
          (part.scalar ? 1 : std::int64_t{columns.width}) * element_bytes(part.element, p.dtype);
    out.values.push_back({name, symbol, words, type, columns, bytes, false});
  };
  const auto gradient = [&](ValueId of, const char* name, const char* symbol, const char* words) {
    value(name, symbol, words, gradient_type(out[of].type), Axis(out[of].columns));
  };
  value("query", "q", "queries", TypeId::Rows, heads);
  value("key_value", "kv", "", TypeId::KeysValues, kv_heads);
  value("partial", "o", "partial results", TypeId::Softmax, heads);
  value("output_gradient", "do", "", TypeId::Rows, heads);
  gradient(kPartial, "prepared_gradient", "do", "output gradients");
  gradient(kQuery, "query_gradient", "dq", "query gradients");
  gradient(kKeyValue, "key_value_gradient", "dkv", "key and value gradients");
  out.given = {kQuery, kKeyValue};
  if (backward) out.given.push_back(kOutputGradient);
  if (forward) {
    out.asked.push_back(kPartial);
  } else {
    out.given.push_back(kPartial);
  }
  if (backward) out.asked.insert(out.asked.end(), {kQueryGradient, kKeyValueGradient});
  out.statements = {
      {TaskKind::Attend, {kQuery, kKeyValue, {}}, {kPartial, {}}, forward},
      {TaskKind::Prepare, {kPartial, kOutputGradient, {}}, {kPreparedGradient, {}}, backward},
      {TaskKind::AttendBackward,
       {kQuery, kPreparedGradient, kKeyValue},
       {kQueryGradient, kKeyValueGradient},
       backward}};
  for (const Statement& s : out.statements)
    for (std::size_t i = 0; i < outputs_of(s.op) && is_attend(s.op); ++i)
      out.values[s.outputs[i].value].is_sum = true;
  return out;
}

}  // namespace ringsched
