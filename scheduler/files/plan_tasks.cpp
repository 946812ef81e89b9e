#include "plan_tasks.hpp"

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
  std::uint32_t fields = bits({Do, Worker, Step, Rows, Lane, After});
  fields |= kind == TaskKind::Receive ? bits({From, Slot}) : bits({In});
  if (kind == TaskKind::Send) fields |= bits({To});
  if (is_transfer(kind)) fields |= bits({Tensor, WithPrevious, Bytes});
  if (is_attend(kind)) fields |= bits({Keys, Pairs});
  return fields;
}

// Files do not say which tensors are complete. Only sums come in parts.
std::uint8_t completed(const Plan& plan, const Task& task) {
  return plan.program[plan.value(task)].is_sum || outputs_of(task.kind) == 0 ? 0 : 1;
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

TaskReader::TaskReader(std::string_view file, Plan& plan, PieceTable& pieces)
    : file_(file), plan_(plan), pieces_(pieces) {
  const Layout& layout = plan_.layout;
  rows_before_.assign(1, 0);
  for (const TokenRange& chunk : layout.chunks)
    rows_before_.push_back(rows_before_.back() + chunk.count);
  single_.resize(layout.chunks.size());
  share_from_.resize(layout.chunks.size());
  for (std::uint32_t w = 0; w < layout.workers(); ++w) {
    const Region share = layout.share(WorkerId{w});
    (share.count == 1 ? single_ : share_from_)[share.first.value] = RegionId{w};
  }
}

void TaskReader::read(dom::array tasks) {
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
    read_task(where, read_fields(where, kTaskFields, task));
  }
}

void TaskReader::read_task(const Where& where, const TaskFields& fields) {
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
  measure(where, fields, task);
  append(task);
}

void TaskReader::append(const Task& task) {
  const TaskId id{static_cast<std::uint32_t>(plan_.tasks.size())};
  if (task.kind == TaskKind::Receive && task.peer.valid()) plan_.tasks[task.peer.value].peer = id;
  plan_.tasks.push_back(task);
  plan_.tasks.back().completes = completed(plan_, task) & 1u;
  // What is put out is complete.
  if (task.kind == TaskKind::Output) mark_complete(plan_, task.inputs[0]);
}

void TaskReader::read_worker(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  const std::int64_t last = plan_.problem.workers - 1;
  WorkerId derived;
  if (task.kind != TaskKind::Receive) {
    derived = plan_.tensor(task.inputs[0]).worker;
  } else if (task.peer.valid()) {
    derived = to_[task.peer.value];
  }
  WorkerId worker = derived;
  if (fields.has(Worker)) {
    worker.value =
        static_cast<std::uint32_t>(whole_number(where, "worker", fields[Worker], 0, last));
    if (task.kind == TaskKind::Receive && derived.valid() && worker != derived)
      where.fail("\"worker\" is {}, but task {} sends to worker {}", worker.value, task.peer.value,
                 derived.value);
  }
  if (!worker.valid())
    where.fail("\"worker\" is missing{}", task.peer.valid() ? ", and the send has no \"to\"" : "");
  task.worker_index = static_cast<std::uint16_t>(worker.value);

  WorkerId to;
  if (fields.has(To))
    to.value = static_cast<std::uint32_t>(whole_number(where, "to", fields[To], 0, last));
  to_.push_back(to);
}

void TaskReader::read_what_moves(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  if (task.kind == TaskKind::Send) task.peer = TaskId{};  // until a receive names it
  const bool has_default = task.kind != TaskKind::Receive || task.peer.valid();
  ValueId value;
  if (fields.has(Tensor)) {
    value = named_value(where, string(where, "tensor", fields[Tensor]));
    if (task.kind == TaskKind::Send && value != default_value(plan_, task))
      where.fail("\"tensor\" is {}, but the send sends {}", plan_.name(value),
                 plan_.name(default_value(plan_, task)));
  } else if (has_default) {
    value = default_value(plan_, task);
  } else {
    where.fail("a receive from null needs \"tensor\"");
  }
  task.piece = pieces_.find_or_add(plan_, value, region(where, Rows, fields, has_default, task));
  if (is_attend(task.kind)) task.keys = region(where, Keys, fields, true, task);
}

RegionId TaskReader::region(const Where& where, TaskField field, const TaskFields& fields,
                            bool has_default, const Task& task) {
  const std::string_view name = kTaskFields[static_cast<std::size_t>(field)];
  if (!fields.has(field)) {
    if (!has_default) where.fail("a receive from null needs \"rows\"");
    return region_id(field == TaskField::Rows ? default_rows(plan_, task)
                                              : default_keys(plan_, task));
  }
  const auto chunks = static_cast<std::int64_t>(plan_.layout.chunks.size());
  std::array<std::int64_t, 2> given{};
  std::size_t n = 0;
  for (const dom::element e : array(where, name, fields[field])) {
    if (n < 2 && (e.get(given[n]) != simdjson::SUCCESS || given[n] < 0))
      where.fail("\"{}\" must be [first chunk, number of chunks], and {} is neither", name,
                 describe(e));
    ++n;
  }
  if (n != 2) where.fail("\"{}\" must be [first chunk, number of chunks]", name);
  if (given[1] == 0) where.fail("\"{}\" is [{}, 0]: at least one chunk", name, given[0]);
  if (given[0] >= chunks || given[1] > chunks - given[0])
    where.fail("\"{}\" is [{}, {}], but the chunks are 0 to {}", name, given[0], given[1],
               chunks - 1);
  return region_id({{static_cast<std::uint32_t>(given[0])}, static_cast<std::uint32_t>(given[1])});
}

void TaskReader::read_order(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  const TaskId id{static_cast<std::uint32_t>(plan_.tasks.size())};
  if (fields.has(Step))
    step_ = static_cast<ringsched::Step>(whole_number(where, "step", fields[Step], 0, kMaxStep));
  task.step = step_;
  task.lane = fields.has(Lane) ? named<ringsched::Lane>(where, "lane",
                                                        string(where, "lane", fields[Lane]), kLanes)
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

void TaskReader::measure(const Where& where, const TaskFields& fields, Task& task) {
  using enum TaskField;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto require_equal = [&](TaskField field, std::int64_t derived) {
    if (!fields.has(field)) return;
    const std::string_view name = kTaskFields[static_cast<std::size_t>(field)];
    const std::int64_t said = whole_number(where, name, fields[field], 0, most);
    if (said != derived)
      where.fail("\"{}\" is {}, but it must be {} for this task", name, said, derived);
  };
  const Piece& piece = plan_.piece(task);
  if (is_attend(task.kind)) {
    task.work = work_of_tile(piece.rows, task.keys);
    return require_equal(Pairs, plan_.works[task.work.value].pairs.value);
  }
  const Operation& op = operation(task.kind);
  ValueId value = piece.value;
  RegionId rows = piece.rows;
  if (op.does == Operation::Does::Compute) value = plan_.tensor(task.inputs[op.sized_by]).value;
  if (op.does == Operation::Does::Combine) rows = plan_.tensor(task.inputs[op.sized_by]).rows;
  task.work = work_of_rows(value, rows);
  require_equal(Bytes, plan_.works[task.work.value].bytes.value);
}

WorkId TaskReader::work_of_tile(RegionId row_region, RegionId key_region) {
  const Region rows = plan_.regions[row_region.value], keys = plan_.regions[key_region.value];
  const auto work = [&] {
    const Tile tile = plan_.problem.mask.tile(plan_.layout.ranges(rows), plan_.layout.ranges(keys));
    return works_.find_or_add(plan_.works, work_of(tile, plan_.problem.heads));
  };
  if (std::uint64_t{rows.count} * keys.count <= 16) return work();
  const std::uint64_t key = (std::uint64_t{row_region.value} << 32) | key_region.value;
  WorkId& known = costly_tiles_[key];
  if (!known.valid()) known = work();
  return known;
}

ValueId TaskReader::named_value(const Where& where, std::string_view text) const {
  if (const ValueId value = plan_.program.find(text); value.valid()) return value;
  std::vector<std::string_view> names;
  for (const Value& v : plan_.program.values) names.push_back(v.name);
  where.fail("{}", unknown_name("kind of tensor", text, names));
}

WorkId TaskReader::work_of_rows(ValueId value, RegionId id) {
  const Region r = plan_.regions[id.value];
  const Tokens rows{rows_before_[r.end()] - rows_before_[r.first.value]};
  return works_.find_or_add(
      plan_.works, work_of(plan_.program, value, rows, plan_.program[value].columns.count));
}

RegionId TaskReader::region_id(Region r) {
  const RegionId likely = (r.count == 1 ? single_ : share_from_)[r.first.value];
  if (likely.valid() && plan_.regions[likely.value] == r) return likely;
  const std::uint64_t key = (std::uint64_t{r.first.value} << 32) | r.count;
  const auto [at, is_new] =
      other_regions_.try_emplace(key, static_cast<std::uint32_t>(plan_.regions.size()));
  if (is_new) plan_.regions.push_back(r);
  return {at->second};
}

}  // namespace ringsched::plan_file
