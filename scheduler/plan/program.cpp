#include "ringsched/scheduler/program.hpp"

#include <algorithm>
#include <utility>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

constexpr Part kRows[] = {{"x", Element::Stored, false}};
constexpr Part kKeysValues[] = {{"k", Element::Stored, false}, {"v", Element::Stored, false}};
constexpr Part kSoftmax[] = {{"o", Element::Fp32, false}, {"lse", Element::Fp32, true}};
// fp32 parts come first, so that they are aligned whatever the dtype of the rest.
constexpr Part kPrepared[] = {
    {"lse", Element::Fp32, true}, {"delta", Element::Fp32, true}, {"do", Element::Stored, false}};
constexpr Part kRowsSum[] = {{"x", Element::Fp32, false}};
constexpr Part kKeysValuesSum[] = {{"k", Element::Fp32, false}, {"v", Element::Fp32, false}};

// By TypeId.
constexpr Type kTypes[] = {
    {"rows", kRows, Algebra::Plus, TypeId::RowsSum, TypeId::Rows},
    {"keys_values", kKeysValues, Algebra::Plus, TypeId::KeysValuesSum, TypeId::KeysValues},
    {"softmax", kSoftmax, Algebra::Softmax, TypeId::Prepared, TypeId::Rows},
    {"prepared", kPrepared, Algebra::Plus, TypeId::RowsSum, TypeId::Prepared},
    {"rows_sum", kRowsSum, Algebra::Plus, TypeId::RowsSum, TypeId::Rows},
    {"keys_values_sum", kKeysValuesSum, Algebra::Plus, TypeId::KeysValuesSum, TypeId::KeysValues},
};

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

ValueId Program::unrounded(ValueId v) const {
  const Statement* const s = statement(TaskKind::Round, v);
  return s ? s->inputs[0] : v;
}

ValueId Program::rounded(ValueId v) const {
  for (const Statement& s : statements)
    if (s.op == TaskKind::Round && s.inputs[0] == v) return s.outputs[0];
  return {};
}

ValueId add_value(Program& p, Value v) {
  v.column_bytes = 0;
  for (const Part& part : type_of(v.type).parts)
    v.column_bytes +=
        (part.scalar ? 1 : std::int64_t{v.columns.width}) * element_bytes(part.element, p.dtype);
  p.values.push_back(std::move(v));
  return {p.size() - 1};
}

ValueId add_rounded(Program& p, ValueId of) {
  const Value v = p[of];
  const ValueId id =
      add_value(p, {"rounded_" + v.name, v.symbol, v.words, type_of(v.type).rounded, v.columns});
  p.statements.push_back({TaskKind::Round, {of, {}, {}}, {id, {}}});
  return id;
}

void mark_sums_and_needs(Program& p) {
  std::vector<bool> made(p.size()), there(p.size()), needed(p.size());
  for (Value& v : p.values) v.is_sum = false;
  for (Statement& s : p.statements) {
    s.asked = false;
    for (std::size_t i = 0; i < outputs_of(s.op); ++i) {
      const std::uint32_t out = s.outputs[i].value;
      if (is_attend(s.op) || made[out]) p.values[out].is_sum = true;
      made[out] = true;
    }
  }
  for (const ValueId v : p.given) there[v.value] = true;
  for (const ValueId v : p.asked) needed[v.value] = true;
  for (const Statement& s : p.statements)
    if (s.op == TaskKind::Round && needed[s.inputs[0].value]) needed[s.outputs[0].value] = true;
  for (bool more = true; more;) {
    more = false;
    for (Statement& s : p.statements) {
      for (std::size_t i = 0; i < outputs_of(s.op) && !s.asked; ++i)
        s.asked = needed[s.outputs[i].value] && !there[s.outputs[i].value];
      for (std::size_t i = 0; i < operation(s.op).inputs && s.asked; ++i) {
        more = more || !needed[s.inputs[i].value];
        needed[s.inputs[i].value] = true;
      }
    }
  }
}

namespace {

class Gradients {
 public:
  explicit Gradients(Program forward) : p_(std::move(forward)), of_(p_.size()) {}

  Program add() && {
    mark_sums_and_needs(p_);
    const std::vector<Statement> statements = p_.statements;
    const std::vector<ValueId> given = p_.given, asked = p_.asked;
    std::vector<ValueId> of_results;
    for (const ValueId v : asked) of_results.push_back(add_given_gradient(v));
    // The gradient of what is made last comes first.
    for (auto s = statements.rbegin(); s != statements.rend(); ++s)
      for (std::size_t i = 0; i < outputs_of(s->op) && s->asked; ++i) add_gradient(s->outputs[i]);
    for (const ValueId v : given) add_gradient(v);
    for (std::size_t i = asked.size(); i-- > 0;)
      differentiate(TaskKind::Output, {asked[i], {}, {}}, of_results[i]);
    for (auto s = statements.rbegin(); s != statements.rend(); ++s)
      if (s->asked) differentiate(s->op, s->inputs, of_[s->outputs[0].value]);
    for (const ValueId v : given) p_.asked.push_back(of_[v.value]);
    mark_sums_and_needs(p_);
    return std::move(p_);
  }

 private:
  // The program cannot know the gradient of a result. That of a softmax value is of its mean alone,
  // and so one matrix.
  ValueId add_given_gradient(ValueId of) {
    const Value v = p_[of];
    if (type_of(v.type).algebra != Algebra::Softmax)
      fail("the gradient of {} cannot be given: it is not the result of an attend", v.name);
    const ValueId id = add_value(
        p_, {"given_" + v.name + "_gradient", "d" + v.symbol, "", TypeId::Rows, v.columns});
    p_.given.push_back(id);
    return id;
  }

  void add_gradient(ValueId of) {
    if (of_[of.value].valid()) return;
    const Value v = p_[of];
    of_[of.value] = add_value(p_, {v.name + "_gradient", "d" + v.symbol, v.name + " gradients",
                                   type_of(v.type).gradient, v.columns});
  }

  void differentiate(TaskKind op, const std::array<ValueId, 3>& inputs, ValueId of_output) {
    if (operation(op).adjoints.empty()) fail("{} has no gradient", to_text(op));
    for (const Adjoint& a : operation(op).adjoints) {
      Statement s;
      s.op = a.op;
      for (std::size_t i = 0; i < operation(a.op).inputs; ++i)
        s.inputs[i] = a.reads[i] == Adjoint::kGradient ? of_output : inputs[a.reads[i]];
      for (std::size_t i = 0; i < outputs_of(a.op); ++i)
        s.outputs[i] = of_[inputs[a.gradient_of[i]].value];
      p_.statements.push_back(s);
    }
  }

  Program p_;
  std::vector<ValueId> of_;  // by value: its gradient
};

}  // namespace

Program with_gradients(Program forward) { return Gradients(std::move(forward)).add(); }

Program program_of(const Problem& p) {
  using namespace attention;
  const Axis heads{"heads", p.heads, p.head_dim, 1};
  const Axis kv_heads{"kv_heads", p.kv_heads, p.head_dim, p.kv_heads ? p.heads / p.kv_heads : 1};
  Program forward;
  forward.dtype = p.dtype;
  forward.given = {add_value(forward, {"query", "q", "queries", TypeId::Rows, heads}),
                   add_value(forward, {"key_value", "kv", "", TypeId::KeysValues, kv_heads})};
  forward.asked = {add_value(forward, {"partial", "o", "partial results", TypeId::Softmax, heads})};
  forward.statements = {{TaskKind::Attend, {kQuery, kKeyValue, {}}, {kPartial, {}}}};
  const std::vector<ValueId> given = forward.given, asked = forward.asked;
  Program out = with_gradients(std::move(forward));
  // What files, tables and pictures call them.
  const auto call = [&](ValueId v, const char* name, const char* words) {
    out.values[v.value].name = name;
    out.values[v.value].words = words;
  };
  call(kOutputGradient, "output_gradient", "output gradients");
  call(kPreparedGradient, "prepared_gradient", "prepared output gradients");
  call(kKeyValueGradient, "key_value_gradient", "key and value gradients");
  for (const ValueId v : {kPartial, kQueryGradient, kKeyValueGradient}) add_rounded(out, v);
  if (p.pass == Pass::Forward) {
    out.given = given;
    out.asked = asked;
  } else if (p.pass == Pass::Backward) {  // the results are there already
    out.given.insert(out.given.end(), asked.begin(), asked.end());
    out.asked.erase(out.asked.begin(),
                    out.asked.begin() + static_cast<std::ptrdiff_t>(asked.size()));
  }
  mark_sums_and_needs(out);
  return out;
}

}  // namespace ringsched
