#include "plan_columns.hpp"

namespace ringsched::python {

namespace {

template <class T, class F>
std::vector<T> each(const auto& things, F f) {
  std::vector<T> out;
  out.reserve(things.size());
  for (const auto& x : things) out.push_back(static_cast<T>(f(x)));
  return out;
}

std::vector<std::string> value_names(const Plan& plan) {
  return each<std::string>(plan.program.values, [](const Value& v) { return v.name; });
}

}  // namespace

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (std::uint32_t k = 0; k < kTaskKinds; ++k)
    names.emplace_back(to_text(static_cast<TaskKind>(k)));
  return names;
}

// Kinds and lanes are bits of a task, so they are copied; the other columns are the tasks
// themselves.
Table tasks_table(const PlanPointer& p) {
  const TaskArray& tasks = p->plan().tasks;
  using Bytes = std::vector<std::uint8_t>;
  Bytes kind, lane, with_previous, completes;
  for (Bytes* column : {&kind, &lane, &with_previous, &completes}) column->reserve(tasks.size());
  for (const Task& t : tasks) {
    kind.push_back(static_cast<std::uint8_t>(t.kind));
    lane.push_back(static_cast<std::uint8_t>(t.lane));
    with_previous.push_back(t.with_previous);
    completes.push_back(t.completes);
  }
  const Task none;
  const Task& t = tasks.empty() ? none : tasks[0];
  constexpr std::size_t stride = sizeof(Task);
  Table table("tasks", tasks.size(), p);
  table.numbers("kind", kind, kind_names())
      .numbers("lane", lane, p->plan().lanes)
      .view("worker", &t.worker_index, stride)
      .view("step", &t.step, stride)
      .view("work", &t.work.value, stride)
      .view("piece", &t.piece.value, stride)
      .view("keys_or_peer", &t.keys.value, stride);
  for (const std::size_t i : {0, 1, 2})
    table.view("input" + std::to_string(i), &t.inputs[i].value, stride);
  return table.numbers("with_previous", with_previous).numbers("completes", completes);
}

Table chunks_table(const PlanPointer& p) {
  const Layout& layout = p->plan().layout;
  const TokenRange none;
  const TokenRange& c = layout.chunks.empty() ? none : layout.chunks[0];
  const WorkerId nobody;
  const WorkerId& owner = layout.owners.empty() ? nobody : layout.owners[0];
  Table table("chunks", layout.chunks.size(), p);
  return table.view("worker", &owner.value, sizeof owner)
      .view("start", &c.start, sizeof c)
      .view("stride", &c.stride, sizeof c)
      .view("count", &c.count, sizeof c);
}

Table pieces_table(const PlanPointer& p) {
  const Plan& plan = p->plan();
  const auto of_rows = [&](auto f) {
    return each<std::uint32_t>(plan.pieces,
                               [&](const Piece& x) { return f(plan.regions[x.rows.value]); });
  };
  return Table("pieces", plan.pieces.size(), p)
      .numbers("value",
               each<std::uint32_t>(plan.pieces, [](const Piece& x) { return x.value.value; }),
               value_names(plan))
      .numbers("first_chunk", of_rows([](const Region& r) { return r.first.value; }))
      .numbers("chunks", of_rows([](const Region& r) { return r.count; }))
      .numbers("first_head",
               each<std::uint32_t>(plan.pieces, [](const Piece& x) { return x.columns.first; }))
      .numbers("heads",
               each<std::uint32_t>(plan.pieces, [](const Piece& x) { return x.columns.count; }))
      .numbers("bytes", each<std::int64_t>(plan.pieces,
                                           [&](const Piece& x) { return plan.bytes(x).value; }));
}

Table works_table(const PlanPointer& p) {
  const std::vector<Work>& works = p->plan().works;
  const Work none;
  const Work& w = works.empty() ? none : works[0];
  return Table("works", works.size(), p)
      .view("rows", &w.rows, sizeof w)
      .view("keys", &w.keys, sizeof w)
      .view("pairs", &w.pairs.value, sizeof w)
      .view("form", reinterpret_cast<const std::uint8_t*>(&w.form), sizeof w,
            {"empty", "full", "causal", "strictly_causal", "other"})
      .view("heads", &w.columns, sizeof w)
      .view("bytes", &w.bytes.value, sizeof w);
}

Table program_table(const PlanPointer& p) {
  const std::vector<Value>& values = p->plan().program.values;
  const auto is_in = [&](const std::vector<ValueId>& list) {
    return each<std::uint8_t>(values, [&](const Value& v) {
      const auto at = static_cast<std::uint32_t>(&v - values.data());
      return std::find(list.begin(), list.end(), ValueId{at}) != list.end();
    });
  };
  return Table("values", values.size(), p)
      .text("name", value_names(p->plan()))
      .text("type", each<std::string>(values, [](const Value& v) { return type_of(v.type).name; }))
      .text("columns", each<std::string>(values, [](const Value& v) { return v.columns.name; }))
      .numbers("count", each<std::uint32_t>(values, [](const Value& v) { return v.columns.count; }))
      .numbers("column_bytes",
               each<std::int64_t>(values, [](const Value& v) { return v.column_bytes; }))
      .numbers("given", is_in(p->plan().program.given))
      .numbers("asked", is_in(p->plan().program.asked));
}

}  // namespace ringsched::python
