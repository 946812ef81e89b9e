// Given tensors, what tasks read of them and of each other, and the outputs that a file may leave
// out.
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "plan_reader.hpp"

namespace ringsched::plan_file {

namespace {

std::optional<std::uint32_t> decimal(std::string_view digits) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  if (digits.size() > 1 && digits.front() == '0') return {};
  return n;
}

constexpr std::array<std::string_view, 4> kGivenFields = {"tensor", "worker", "rows", "heads"};

}  // namespace

void PlanReader::add(const Given& g) {
  const RegionId rows = tables_.id(g.rows);
  plan_.initial.push_back({tables_.id(Piece{g.value, rows, g.heads}), g.worker});
}

void PlanReader::read_given(dom::array list) {
  for (const dom::element found : list) {
    const Where where{file_, "given", static_cast<std::int64_t>(plan_.initial.size())};
    const Fields<kGivenFields> fields(where, object({where, "given", found}));
    fields.require({"tensor", "worker"});
    const ValueId value = named_value(fields["tensor"]);
    if (!is_given(plan_, value))
      where.fail("a plan with pass {} is given no {}", to_text(plan_.problem.pass),
                 plan_.name(value));
    const WorkerId at = worker(fields["worker"]);
    add({value, at, fields.has("rows") ? region(fields["rows"]) : given_rows(plan_, value, at),
         fields.has("heads") ? heads(fields["heads"], value) : plan_.program[value].all_columns()});
  }
}

void PlanReader::read_inputs(const Found& found, Task& task) {
  const Where& where = found.where;
  const std::size_t expected = operation(task.kind).inputs;
  std::size_t given = 0;
  for (const dom::element input : array(found)) {
    if (given < expected) task.inputs[given] = reference(where, input);
    ++given;
  }
  const bool may_be_empty = is_member(task.kind);
  if (given > expected || (given < expected && !may_be_empty))
    where.fail("{} takes {} input{}, not {}", to_text(task.kind), expected,
               expected == 1 ? "" : "s", given);
  if (given > 0) check_input_kinds(where, task);
}

TensorId PlanReader::reference(const Where& where, dom::element found) {
  std::string_view text;
  if (found.get(text) == simdjson::SUCCESS) return named_tensor(where, text);
  std::int64_t task = 0;
  if (found.get(task) != simdjson::SUCCESS)
    where.fail("a tensor is a task's number or a string like \"KV3\" or \"17.1\", not {}",
               describe(found));
  return output_of(where, task, 0);
}

TensorId PlanReader::named_tensor(const Where& where, std::string_view text) {
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view name = text.substr(0, dot);
  // After a point: which of several. The first has none.
  const auto index = dot == text.size() ? 0 : decimal(text.substr(dot + 1));
  if (index && (dot == text.size() || *index > 0)) {
    if (const auto task = decimal(name); task && *index == 1) return output_of(where, *task, 1);
    for (const auto& [value, letters] : kInitialNames)
      if (name.starts_with(letters))
        if (const auto worker = decimal(name.substr(letters.size())))
          return given_tensor(where, text, value, *worker, *index);
  }
  where.fail(
      "unknown tensor \"{}\"; a tensor is Q, KV, dO or O with a worker's number (\"KV3\"), a "
      "task's number (17), or \"17.1\" for the second output of task 17",
      printable(text));
}

TensorId PlanReader::given_tensor(const Where& where, std::string_view text, ValueId value,
                                  std::uint32_t worker, std::uint32_t index) {
  if (!is_given(plan_, value))
    where.fail("a plan with pass {1} has no {0}", text, to_text(plan_.problem.pass));
  if (worker >= plan_.problem.workers)
    where.fail("{} does not exist; workers are 0 to {}", text, plan_.problem.workers - 1);
  const auto of_worker = given_->of(value, {worker});
  if (index >= of_worker.size())
    where.fail("{} does not exist; worker {} is given {} {} tensor{}", text, worker,
               of_worker.size(), plan_.name(value), of_worker.size() == 1 ? "" : "s");
  return of_worker[index];
}

TensorId PlanReader::output_of(const Where& where, std::int64_t task, std::uint32_t index) {
  if (task < 0 || task >= count_)
    where.fail("input {}: no such task; tasks are 0 to {}", task, count_ - 1);
  if (task >= next_task().value)
    where.fail("input {}: a task reads outputs of earlier tasks only", task);
  const TaskId id{static_cast<std::uint32_t>(task)};
  const TaskKind kind = plan_.tasks[id.value].kind;
  if (outputs_of(kind) == 0)
    where.fail("input {}: that task is a{} {}, which has no output", task,
               kind == TaskKind::Output ? "n" : "", to_text(kind));
  if (index >= outputs_of(kind))
    where.fail("input \"{}.1\": only attend_backward has a second output, not {}", task,
               to_text(kind));
  if (plan_.regions[plan_.rows(plan_.tasks[id.value]).value].count == 0)
    where.fail("input {}: that member of {} gets nothing", task,
               is_repack(kind) ? "a repack" : "an exchange");
  return plan_.output(id, index);
}

void PlanReader::check_input_kinds(const Where& where, const Task& task) {
  const auto value_of = [&](std::size_t i) { return plan_.tensor(task.inputs[i]).value; };
  const auto expect = [&](std::size_t i, ValueId expected) {
    if (const ValueId found = value_of(i); found != expected)
      where.fail("input {} of {} must be a {} tensor, not {}", i + 1, to_text(task.kind),
                 plan_.name(expected), plan_.name(found));
  };
  const Operation& op = operation(task.kind);
  if (communicates(task.kind) || is_repack(task.kind)) return;
  const Value& first = plan_.program[value_of(0)];
  const ValueId unrounded = plan_.program.unrounded(value_of(0));
  if (task.kind == TaskKind::Round && !plan_.program.rounded(value_of(0)).valid())
    where.fail("round takes a partial, query_gradient or key_value_gradient tensor, not {}",
               first.name);
  if (op.does == Operation::Does::Compute) {
    const Statement& statement = *plan_.program.statement(task.kind, default_value(plan_, task));
    for (std::size_t i = 0; i < op.inputs; ++i) expect(i, statement.inputs[i]);
    return;
  }
  const bool softmax = type_of(first.type).algebra == Algebra::Softmax;
  if (op.does == Operation::Does::Deliver && !plan_.program[unrounded].is_sum)
    where.fail(
        "output takes a partial, query_gradient or key_value_gradient tensor, rounded or not, "
        "not {}",
        first.name);
  if (task.kind == TaskKind::Reduce && (!first.is_sum || softmax))
    where.fail("reduce adds query_gradient or key_value_gradient tensors, not {}", first.name);
  if (task.kind == TaskKind::Merge) expect(0, attention::kPartial);
  if (op.does == Operation::Does::Combine) expect(1, value_of(0));
}

TaskId PlanReader::earlier_task(const Found& found) const {
  const std::int64_t n = whole_number(found, 0, count_ - 1);
  if (n >= next_task().value)
    found.where.fail("\"{}\" must name an earlier task, not {}", found.field, n);
  return {static_cast<std::uint32_t>(n)};
}

void PlanReader::read_sender(const Found& found, Task& task) {
  task.peer = TaskId{};
  if (found.element.is_null()) return;
  task.peer = earlier_task(found);
  const Task& sender = plan_.tasks[task.peer.value];
  if (sender.kind != TaskKind::Send)
    found.where.fail("\"from\" must name a send, but task {} is {}", task.peer.value,
                     to_text(sender.kind));
  if (sender.peer.valid())
    found.where.fail("task {1} already receives what task {0} sends", task.peer.value,
                     sender.peer.value);
}

void PlanReader::add_outputs() {
  if (has_outputs(plan_)) return;
  std::vector<bool> is_read(plan_.output(next_task()).value);
  for (const Task& task : plan_.tasks)
    if (communicates(task.kind) || is_repack(task.kind) || is_combine(task.kind) ||
        task.kind == TaskKind::Round)
      for (const TensorId input : task.inputs)
        if (input.valid()) is_read[input.value] = true;

  std::vector<Task> outputs;
  for (TaskId maker{0}; maker < next_task(); ++maker.value)
    for (std::uint32_t i = 0; i < outputs_of(plan_.tasks[maker.value].kind); ++i) {
      const TensorId id = plan_.output(maker, i);
      const ringsched::Tensor tensor = plan_.tensor(id);
      const ValueId result = plan_.program.unrounded(tensor.value);
      const bool is_result = plan_.program[result].is_sum && !is_given(plan_, result);
      const Region home = given_rows(
          plan_, result == attention::kPartial ? attention::kQuery : result, tensor.worker);
      const Region rows = plan_.regions[tensor.rows.value];
      if (!is_result || is_read[id.value] || rows.count == 0 || !home.contains(rows)) continue;
      const Piece piece{tensor.value, tensor.rows, tensor.columns};
      Task& output = outputs.emplace_back();
      output.kind = TaskKind::Output;
      output.worker_index = static_cast<std::uint16_t>(tensor.worker.value);
      output.step = step_;
      output.piece = tables_.id(piece);
      output.work = work_of_rows(piece);
      output.inputs[0] = id;
    }
  std::stable_sort(outputs.begin(), outputs.end(), [&](const Task& a, const Task& b) {
    return std::pair(plan_.value(a), a.worker_index) < std::pair(plan_.value(b), b.worker_index);
  });
  plan_.tasks.insert(plan_.tasks.end(), outputs.begin(), outputs.end());
}

}  // namespace ringsched::plan_file
