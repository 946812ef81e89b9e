#include "plan_reader.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "plan_defaults.hpp"

namespace ringsched::plan_file {

namespace {

constexpr Step kMaxStep = (Step{1} << 31) - 1;

constexpr std::uint32_t bits(std::initializer_list<TaskField> fields) {
  std::uint32_t set = 0;
  for (const TaskField f : fields) set |= 1u << static_cast<unsigned>(f);
  return set;
}

// What may be said of a task of this kind.
std::uint32_t fields_of(TaskKind kind) {
  using enum TaskField;
  std::uint32_t fields = bits({Do, Worker, Step, Rows, Heads, Lane, After});
  fields |= kind == TaskKind::Receive ? bits({From, Slot}) : bits({In});
  if (kind == TaskKind::Send) fields |= bits({To});
  if (is_transfer(kind)) fields |= bits({Tensor, WithPrevious, Bytes});
  if (is_attend(kind)) fields |= bits({Keys, Pairs});
  if (outputs_of(kind) > 0) fields |= bits({Complete});
  return fields;
}

// The value whose to_text() this is.
template <class Enum>
Enum named(const Where& where, std::string_view what, std::string_view text, std::uint32_t count) {
  std::vector<std::string_view> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (to_text(value) == text) return value;
  }
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(to_text(static_cast<Enum>(i)));
  where.fail("{}", unknown_name(what, text, names));
}

}  // namespace

PlanReader::PlanReader(std::string_view file, int version, Plan& plan)
    : file_(file), version_(version), plan_(plan) {
  regions_.begin(plan_);
  rows_before_.assign(1, 0);
  for (const TokenRange& chunk : plan_.layout.chunks)
    rows_before_.push_back(rows_before_.back() + chunk.count);
}

void PlanReader::read_tasks(dom::array tasks) {
  given_.emplace(plan_);
  for ([[maybe_unused]] const dom::element unused : tasks) ++count_;  // size() stops at 2^24
  if (count_ > kMostTasks)
    Where{file_}.fail("the plan has {} tasks; at most {} are allowed", count_, kMostTasks);
  plan_.tasks.reserve(count_);
  to_.reserve(count_);
  for (const dom::element found : tasks) {
    const Where where{file_, "task", static_cast<std::int64_t>(plan_.tasks.size())};
    dom::object task;
    if (found.get(task) != simdjson::SUCCESS)
      where.fail("a task must be an object, not {}", describe(found));
    constexpr auto of_version_1 = static_cast<std::size_t>(TaskField::Heads);
    read_task(where, read_fields(where, kTaskFields, task,
                                 version_ == 1 ? of_version_1 : kTaskFields.size()));
  }
}

void PlanReader::read_task(const Where& where, const TaskFields& fields) {
  using enum TaskField;
  if (!fields.has(Do)) where.fail("\"do\" is missing");
  Task task;
  task.kind = named<TaskKind>(where, "task", string(where, "do", fields[Do]), kTaskKinds);
  if (const std::uint32_t wrong = fields.given & ~fields_of(task.kind); wrong != 0)
    where.fail("\"{}\" has no meaning for {} tasks",
               kTaskFields[static_cast<std::size_t>(std::countr_zero(wrong))], to_text(task.kind));
  const TaskField source = task.kind == TaskKind::Receive ? From : In;
  if (!fields.has(source))
    where.fail("\"{}\" is missing", kTaskFields[static_cast<std::size_t>(source)]);

  if (source == From) {
    read_sender(where, fields[From], task);
  } else {
    read_inputs(where, fields[In], task);
  }
  read_worker(where, fields, task);
  read_what_moves(where, fields, task);
  read_order(where, fields, task);
  read_completion(where, fields, task.kind);
  measure(where, fields, task);
  append(task);
}

void PlanReader::append(const Task& task) {
  const TaskId id{static_cast<std::uint32_t>(plan_.tasks.size())};
  if (task.kind == TaskKind::Receive && task.peer.valid()) plan_.tasks[task.peer.value].peer = id;
  plan_.tasks.push_back(task);
}

void PlanReader::mark_complete() {
  const std::vector<std::uint8_t> usual = default_completes(plan_);
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const auto said = stated_.empty() ? stated_.end() : stated_.find(id);
    plan_.tasks[id].completes = (said == stated_.end() ? usual[id] : said->second) & 3u;
  }
}

void PlanReader::read_worker(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  WorkerId derived;
  if (task.kind != TaskKind::Receive) {
    derived = plan_.tensor(task.inputs[0]).worker;
  } else if (task.peer.valid()) {
    derived = to_[task.peer.value];
  }
  WorkerId worker = derived;
  if (fields.has(Worker)) {
    worker = worker_number(where, "worker", fields[Worker]);
    if (task.kind == TaskKind::Receive && derived.valid() && worker != derived)
      where.fail("\"worker\" is {}, but task {} sends to worker {}", worker.value, task.peer.value,
                 derived.value);
  }
  if (!worker.valid())
    where.fail("\"worker\" is missing{}", task.peer.valid() ? ", and the send has no \"to\"" : "");
  task.worker_index = static_cast<std::uint16_t>(worker.value);

  WorkerId to;
  if (fields.has(To)) to = worker_number(where, "to", fields[To]);
  to_.push_back(to);
}

void PlanReader::read_what_moves(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  if (task.kind == TaskKind::Send) task.peer = TaskId{};  // until a receive names it
  const bool has_default = task.kind != TaskKind::Receive || task.peer.valid();
  for (const TaskField f : {Tensor, Rows})
    if (!has_default && !fields.has(f))
      where.fail("a receive from null needs \"{}\"", kTaskFields[static_cast<std::size_t>(f)]);
  const ValueId value =
      fields.has(Tensor) ? named_value(where, fields[Tensor]) : default_value(plan_, task);
  if (task.kind == TaskKind::Send && value != default_value(plan_, task))
    where.fail("\"tensor\" is {}, but the send sends {}", plan_.name(value),
               plan_.name(default_value(plan_, task)));
  const RegionId rows = fields.has(Rows) ? region(where, "rows", fields[Rows])
                                         : regions_.find_or_add(plan_, default_rows(plan_, task));
  task.piece = pieces_.find_or_add(plan_, {value, rows,
                                           fields.has(Heads) ? heads(where, fields[Heads], value)
                                                             : default_heads(plan_, task, value)});
  if (is_attend(task.kind))
    task.keys = fields.has(Keys) ? region(where, "keys", fields[Keys])
                                 : regions_.find_or_add(plan_, default_keys(plan_, task));
}

WorkerId PlanReader::worker_number(const Where& where, std::string_view field,
                                   dom::element found) const {
  const std::int64_t last = plan_.problem.workers - 1;
  return {static_cast<std::uint32_t>(whole_number(where, field, found, 0, last))};
}

ValueId PlanReader::named_value(const Where& where, dom::element found) const {
  const std::string_view text = string(where, "tensor", found);
  if (const ValueId value = plan_.program.find(text); value.valid()) return value;
  std::vector<std::string_view> names;
  for (const Value& v : plan_.program.values) names.push_back(v.name);
  where.fail("{}", unknown_name("kind of tensor", text, names));
}

RegionId PlanReader::region(const Where& where, std::string_view field, dom::element found) {
  const Range r = range(where, field, found, "chunks", plan_.layout.chunks.size());
  return regions_.find_or_add(plan_, {{r.first}, r.count});
}

ColumnRange PlanReader::heads(const Where& where, dom::element found, ValueId value) const {
  const Axis& axis = plan_.program[value].columns;
  const Range r = range(where, "heads", found, axis.name, axis.count);
  return {r.first, r.count};
}

void PlanReader::read_order(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  const TaskId id{static_cast<std::uint32_t>(plan_.tasks.size())};
  if (fields.has(Step))
    step_ = static_cast<ringsched::Step>(whole_number(where, "step", fields[Step], 0, kMaxStep));
  task.step = step_;
  task.lane = fields.has(Lane) ? named_lane(where, string(where, "lane", fields[Lane]))
                               : default_lane(plan_, task);
  if (fields.has(WithPrevious))
    task.with_previous = boolean(where, "with_previous", fields[WithPrevious]);
  if (fields.has(After)) {
    const std::size_t first = plan_.controls.size();
    for (const dom::element before : array(where, "after", fields[After]))
      plan_.controls.push_back({earlier_task(where, "after", before), id});
    std::sort(plan_.controls.begin() + static_cast<std::ptrdiff_t>(first), plan_.controls.end(),
              [](ControlEdge a, ControlEdge b) { return a.before < b.before; });
  }
  // No plan needs more buffers than it has tasks; more would only cost whoever keeps a table.
  if (fields.has(Slot))
    plan_.slots.push_back(
        {id, static_cast<std::uint32_t>(whole_number(where, "slot", fields[Slot], 0,
                                                     static_cast<std::int64_t>(count_) - 1))});
}

void PlanReader::read_completion(const Where& where, const TaskFields& fields, TaskKind kind) {
  using enum TaskField;
  if (!fields.has(Complete)) return;
  std::uint8_t& said = stated_[static_cast<std::uint32_t>(plan_.tasks.size())];
  if (outputs_of(kind) == 1) {
    said = boolean(where, "complete", fields[Complete]) ? 1 : 0;
    return;
  }
  std::uint32_t n = 0, bits = 0;
  for (const dom::element e : array(where, "complete", fields[Complete])) {
    if (boolean(where, "complete", e) && n < outputs_of(kind)) bits |= 1u << n;
    ++n;
  }
  if (n != outputs_of(kind))
    where.fail("\"complete\" must have {} entries, one for each output, not {}", outputs_of(kind),
               n);
  said = bits & 3u;
}

void PlanReader::measure(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto require_equal = [&](TaskField field, std::int64_t derived) {
    if (!fields.has(field)) return;
    const std::string_view name = kTaskFields[static_cast<std::size_t>(field)];
    const std::int64_t said = whole_number(where, name, fields[field], 0, most);
    if (said != derived)
      where.fail("\"{}\" is {}, but it must be {} for this task", name, said, derived);
  };
  Piece piece = plan_.piece(task);
  if (is_attend(task.kind)) {
    task.work = work_of_attend(piece, task.keys);
    return require_equal(Pairs, plan_.works[task.work.value].pairs.value);
  }
  const Operation& op = operation(task.kind);
  if (op.does == Operation::Does::Compute)
    piece.value = plan_.tensor(task.inputs[op.sized_by]).value;
  if (op.does == Operation::Does::Combine) piece.rows = plan_.tensor(task.inputs[op.sized_by]).rows;
  task.work = work_of_rows(piece);
  require_equal(Bytes, plan_.works[task.work.value].bytes.value);
}

WorkId PlanReader::work_of_attend(const Piece& made, RegionId key_region) {
  const Region rows = plan_.regions[made.rows.value], keys = plan_.regions[key_region.value];
  const auto tile = [&] {
    return plan_.problem.mask.tile(plan_.layout.ranges(rows), plan_.layout.ranges(keys));
  };
  const auto work = [&](const Tile& t) {
    return works_.find_or_add(plan_.works, work_of(t, made.columns.count));
  };
  if (std::uint64_t{rows.count} * keys.count <= 16) return work(tile());
  const std::uint64_t key = (std::uint64_t{made.rows.value} << 32) | key_region.value;
  const auto [known, is_new] = costly_tiles_.try_emplace(key);
  if (is_new) known->second = tile();
  return work(known->second);
}

Lane PlanReader::named_lane(const Where& where, std::string_view text) const {
  const auto at = std::find(plan_.lanes.begin(), plan_.lanes.end(), text);
  if (at != plan_.lanes.end()) return static_cast<Lane>(at - plan_.lanes.begin());
  const std::vector<std::string_view> names(plan_.lanes.begin(), plan_.lanes.end());
  where.fail("{}", unknown_name("lane", text, names));
}

WorkId PlanReader::work_of_rows(const Piece& p) {
  const Region r = plan_.regions[p.rows.value];
  const Tokens rows{rows_before_[r.end()] - rows_before_[r.first.value]};
  return works_.find_or_add(plan_.works, work_of(plan_.program, p.value, rows, p.columns.count));
}

}  // namespace ringsched::plan_file
