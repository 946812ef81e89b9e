#include "plan_reader.hpp"

#include <algorithm>

namespace ringsched::plan_file {

namespace {

constexpr Step kMaxStep = (Step{1} << 31) - 1;

// The fields that a task of this kind may have.
std::uint32_t fields_of(TaskKind kind) {
  constexpr auto set = TaskFields::set;
  std::uint32_t fields = set({"do", "worker", "step", "rows", "heads", "lane", "after"});
  fields |= kind == TaskKind::Receive ? set({"from", "slot"}) : set({"in"});
  if (kind == TaskKind::Send) fields |= set({"to"});
  if (communicates(kind) || is_repack(kind)) fields |= set({"tensor", "bytes"});
  if (is_transfer(kind)) fields |= set({"with_previous"});
  if (is_member(kind)) fields |= set({"members"});
  if (is_attend(kind)) fields |= set({"keys", "pairs"});
  if (outputs_of(kind) > 0) fields |= set({"complete"});
  return fields;
}

}  // namespace

PlanReader::PlanReader(std::string_view file, int version, Plan& plan)
    : file_(file), version_(version), plan_(plan), tables_(plan) {
  tables_.add_shares();
  rows_before_.assign(1, 0);
  for (const TokenRange& chunk : plan_.layout.chunks)
    rows_before_.push_back(rows_before_.back() + chunk.count);
}

void PlanReader::read_tasks(dom::array tasks) {
  given_.emplace(plan_);
  for ([[maybe_unused]] const dom::element unused : tasks) ++count_;  // size() stops at 2^24
  if (static_cast<std::uint64_t>(count_) > kMostTasks)
    Where{file_}.fail("the plan has {} tasks; at most {} are allowed", count_, kMostTasks);
  plan_.tasks.reserve(static_cast<std::size_t>(count_));
  to_.reserve(static_cast<std::size_t>(count_));
  for (const dom::element found : tasks) {
    const Where where{file_, "task", static_cast<std::int64_t>(plan_.tasks.size())};
    dom::object task;
    if (found.get(task) != simdjson::SUCCESS)
      where.fail("a task must be an object, not {}", describe(found));
    read_task({where, task, version_ == 1 ? kTaskFieldsOfVersion1 : kTaskFields.size()});
  }
}

void PlanReader::read_task(const TaskFields& fields) {
  Task task;
  task.kind = read_kind(fields);
  read_membership(fields, task);
  if (task.kind == TaskKind::Receive) {
    fields.require({"from"});
    read_sender(fields["from"], task);
  } else {
    fields.require({"in"});
    read_inputs(fields["in"], task);
  }
  read_worker(fields, task);
  read_what_moves(fields, task);
  read_order(fields, task);
  read_completion(fields, task.kind);
  measure(fields, task);
  if (task.kind == TaskKind::Receive && task.peer.valid())
    plan_.tasks[task.peer.value].peer = next_task();
  plan_.tasks.push_back(task);
}

TaskKind PlanReader::read_kind(const TaskFields& fields) const {
  const Where& where = fields.where;
  fields.require({"do"});
  const auto kind =
      static_cast<TaskKind>(place_of(fields["do"], "task", kOperations, &Operation::name));
  if (version_ == 1 && kind > TaskKind::Output)
    where.fail("{} needs \"version\":2; this file says 1", to_text(kind));
  if (const auto wrong = fields.other_than(fields_of(kind)); !wrong.empty())
    where.fail("\"{}\" has no meaning for {} tasks", wrong, to_text(kind));
  return kind;
}

// The first task of an exchange, or a repack, says how many members there are, and the others
// follow it.
void PlanReader::read_membership(const TaskFields& fields, Task& task) {
  const Where& where = fields.where;
  const std::uint32_t id = next_task().value;
  for (const TaskKind kind : {TaskKind::Exchange, TaskKind::Repack}) {
    const std::vector<Exchange>& all = members_of(kind);
    if (all.empty() || id >= all.back().end()) continue;
    const Exchange& e = all.back();
    const std::string_view name = to_text(kind), a = is_repack(kind) ? "a" : "an";
    if (task.kind != kind)
      where.fail("task {} begins {} {} of {} members, so this must be {} {}, not {}", e.first.value,
                 a, name, e.members, a, name, to_text(task.kind));
    if (fields.has("members"))
      where.fail(
          "only the first task of {} {} says \"members\"; this is one of the {} members that "
          "begin with task {}",
          a, name, e.members, e.first.value);
    task.exchange = {static_cast<std::uint32_t>(all.size()) - 1};
    task.with_previous = is_repack(kind);
    return;
  }
  if (!is_member(task.kind)) return;
  if (!fields.has("members"))
    where.fail("\"members\" is missing: the first task of {} {} says how many there are",
               is_repack(task.kind) ? "a" : "an", to_text(task.kind));
  const auto members = fields.number("members", 1, kMostTasks);
  if (members > count_ - id)
    where.fail("\"members\" is {}, but the file has only {} tasks from here on", members,
               count_ - id);
  std::vector<Exchange>& all = members_of(task.kind);
  task.exchange = {static_cast<std::uint32_t>(all.size())};
  all.push_back({{id}, static_cast<std::uint32_t>(members)});
}

void PlanReader::mark_complete() {
  std::vector<std::uint8_t> completes = default_completes(plan_);
  for (const auto& [id, said] : completes_) completes[id.value] = said & 3u;
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
    plan_.tasks[id].completes = completes[id] & 3u;
}

void PlanReader::read_worker(const TaskFields& fields, Task& task) {
  WorkerId derived;
  if (task.kind != TaskKind::Receive) {
    if (task.inputs[0].valid()) derived = plan_.tensor(task.inputs[0]).worker;
  } else if (task.peer.valid()) {
    derived = to_[task.peer.value];
  }
  const WorkerId here = fields.has("worker") ? worker(fields["worker"]) : derived;
  if (task.kind == TaskKind::Receive && derived.valid() && here != derived)
    fields.where.fail("\"worker\" is {}, but task {} sends to worker {}", here.value,
                      task.peer.value, derived.value);
  if (!here.valid())
    fields.where.fail("\"worker\" is missing{}", is_member(task.kind) ? ", and \"in\" is empty"
                                                 : task.peer.valid()
                                                     ? ", and the send has no \"to\""
                                                     : "");
  task.worker_index = static_cast<std::uint16_t>(here.value);
  to_.push_back(fields.has("to") ? worker(fields["to"]) : WorkerId{});
}

void PlanReader::read_what_moves(const TaskFields& fields, Task& task) {
  const Where& where = fields.where;
  if (task.kind == TaskKind::Send) task.peer = TaskId{};  // until a receive names it
  const bool has_default = task.kind != TaskKind::Receive || task.peer.valid();
  for (const TaskFields::Name n : {TaskFields::Name("tensor"), TaskFields::Name("rows")})
    if (!has_default && !fields.has(n)) where.fail("a receive from null needs \"{}\"", n.text());
  if (is_member(task.kind)) {
    fields.require({"rows"});
    if (!task.inputs[0].valid() && !fields.has("tensor"))
      where.fail("\"tensor\" is missing, and \"in\" is empty");
  }
  const ValueId value =
      fields.has("tensor") ? named_value(fields["tensor"]) : default_value(plan_, task);
  const bool keeps_value = communicates(task.kind) || is_repack(task.kind);
  if (keeps_value && task.inputs[0].valid() && value != default_value(plan_, task))
    where.fail("\"tensor\" is {}, but the {} {} {}", plan_.name(value), to_text(task.kind),
               is_member(task.kind) ? "is of" : "sends", plan_.name(default_value(plan_, task)));
  const Region rows =
      fields.has("rows") ? read_rows(fields["rows"], task.kind) : default_rows(plan_, task);
  const ColumnRange columns =
      fields.has("heads") ? heads(fields["heads"], value) : default_heads(plan_, task, value);
  task.piece = tables_.id(Piece{value, tables_.id(rows), columns});
  if (!is_attend(task.kind)) return;
  const Region keys = fields.has("keys") ? region(fields["keys"]) : default_keys(plan_, task);
  task.keys = tables_.id(keys);
}

ValueId PlanReader::named_value(const Found& found) const {
  const ValueId value{place_of(found, "kind of tensor", plan_.program.values, &Value::name)};
  if (version_ == 1 && plan_.program.unrounded(value) != value)
    found.where.fail("{} needs \"version\":2; this file says 1", plan_.name(value));
  return value;
}

WorkerId PlanReader::worker(const Found& found) const {
  return {static_cast<std::uint32_t>(whole_number(found, 0, plan_.problem.workers - 1))};
}

Region PlanReader::region(const Found& found) const {
  const Range r = range(found, "chunks", plan_.layout.chunks.size());
  return {{r.first}, r.count};
}

// A member of an exchange, or a repack, may get nothing.
Region PlanReader::read_rows(const Found& found, TaskKind kind) const {
  const dom::array rows = array(found);
  if (is_member(kind) && rows.begin() == rows.end()) return {{0}, 0};
  return region(found);
}

ColumnRange PlanReader::heads(const Found& found, ValueId value) const {
  const Axis& axis = plan_.program[value].columns;
  const Range r = range(found, axis.name, axis.count);
  return {r.first, r.count};
}

void PlanReader::read_order(const TaskFields& fields, Task& task) {
  if (fields.has("step")) step_ = fields.number<Step>("step", 0, kMaxStep);
  task.step = step_;
  task.lane =
      fields.has("lane")
          ? static_cast<Lane>(place_of(fields["lane"], "lane", plan_.lanes, std::identity()))
          : default_lane(plan_, task);
  if (fields.has("with_previous")) task.with_previous = boolean(fields["with_previous"]);
  if (fields.has("after")) {
    const auto first = static_cast<std::ptrdiff_t>(plan_.controls.size());
    for (const dom::element before : array(fields["after"]))
      plan_.controls.push_back({earlier_task({fields.where, "after", before}), next_task()});
    std::ranges::sort(plan_.controls.begin() + first, plan_.controls.end(), {},
                      &ControlEdge::before);
  }
  // No plan needs more buffers than tasks; more would only cost memory in tables.
  if (fields.has("slot"))
    plan_.slots.push_back({next_task(), fields.number<std::uint32_t>("slot", 0, count_ - 1)});
}

void PlanReader::read_completion(const TaskFields& fields, TaskKind kind) {
  if (!fields.has("complete")) return;
  const std::uint32_t outputs = outputs_of(kind);
  std::uint32_t n = 0, bits = 0;
  const auto read_next = [&](dom::element e) {
    if (boolean({fields.where, "complete", e}) && n < outputs) bits |= 1u << n;
    ++n;
  };
  if (outputs == 1) {
    read_next(fields["complete"].element);
  } else {
    for (const dom::element e : array(fields["complete"])) read_next(e);
  }
  if (n != outputs)
    fields.where.fail("\"complete\" must have {} entries, one for each output, not {}", outputs, n);
  completes_.emplace_back(next_task(), bits);
}

void PlanReader::measure(const TaskFields& fields, Task& task) {
  Piece piece = plan_.piece(task);
  const Operation& op = operation(task.kind);
  if (op.does == Operation::Does::Compute)
    piece.value = plan_.tensor(task.inputs[op.sized_by]).value;
  if (op.does == Operation::Does::Combine) piece.rows = plan_.tensor(task.inputs[op.sized_by]).rows;
  task.work = is_attend(task.kind) ? work_of_attend(piece, task.keys) : work_of_rows(piece);
  const auto require_equal = [&](TaskFields::Name field, std::int64_t derived) {
    if (!fields.has(field)) return;
    if (const std::int64_t said = fields.number(field, 0); said != derived)
      fields.where.fail("\"{}\" is {}, but it must be {} for this task", field.text(), said,
                        derived);
  };
  require_equal("pairs", plan_.works[task.work.value].pairs.value);
  require_equal("bytes", plan_.works[task.work.value].bytes.value);
}

WorkId PlanReader::work_of_attend(const Piece& made, RegionId key_region) {
  const Region rows = plan_.regions[made.rows.value], keys = plan_.regions[key_region.value];
  const auto tile = [&] {
    return plan_.problem.mask.tile(plan_.layout.ranges(rows), plan_.layout.ranges(keys));
  };
  const auto work = [&](const Tile& t) { return tables_.id(work_of(t, made.columns.count)); };
  if (std::uint64_t{rows.count} * keys.count <= 16) return work(tile());
  const std::uint64_t key = (std::uint64_t{made.rows.value} << 32) | key_region.value;
  const auto [known, is_new] = costly_tiles_.try_emplace(key);
  if (is_new) known->second = tile();
  return work(known->second);
}

WorkId PlanReader::work_of_rows(const Piece& p) {
  const Region r = plan_.regions[p.rows.value];
  const Tokens rows{rows_before_[r.end()] - rows_before_[r.first.value]};
  return tables_.id(work_of(plan_.program, p.value, rows, p.columns.count));
}

}  // namespace ringsched::plan_file
