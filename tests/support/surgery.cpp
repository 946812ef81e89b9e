#include "support/surgery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ringsched/scheduler/plan_tables.hpp"
#include "support/term_surgery.hpp"

namespace ringsched {

namespace {

std::vector<std::uint32_t> identity(const Plan& plan) {
  std::vector<std::uint32_t> order(plan.tasks.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

}  // namespace

namespace {

void find_members_of(Plan& plan, TaskKind kind, std::vector<Exchange>& all) {
  std::vector<Exchange> found;
  std::vector<ExchangeId> numbers(all.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    Task& t = plan.tasks[id];
    if (t.kind != kind || t.exchange.value >= numbers.size()) continue;
    ExchangeId& number = numbers[t.exchange.value];
    if (!number.valid()) {
      number = {static_cast<std::uint32_t>(found.size())};
      found.push_back({{id}, 0});
    }
    ++found[number.value].members;
    t.exchange = number;
  }
  all = std::move(found);
}

}  // namespace

void find_members(Plan& plan) {
  find_members_of(plan, TaskKind::Exchange, plan.exchanges);
  find_members_of(plan, TaskKind::Repack, plan.repacks);
}

void relay(Plan& plan, const std::vector<std::uint32_t>& order) {
  std::vector<TaskId> moved(plan.tasks.size());
  for (std::uint32_t i = 0; i < order.size(); ++i)
    if (!moved[order[i]].valid()) moved[order[i]] = {i};
  const auto n = static_cast<std::uint32_t>(plan.initial.size());
  const auto task = [&](TaskId t) { return t.value < moved.size() ? moved[t.value] : TaskId{}; };

  TaskArray tasks;
  for (const std::uint32_t old : order) {
    Task t = plan.tasks[old];
    for (TensorId& input : t.inputs) {
      if (!input.valid() || input.value < n) continue;
      const TaskId maker = task(plan.producer(input));
      input = maker.valid() ? TensorId{n + 2 * maker.value + (input.value - n) % 2} : TensorId{};
    }
    if (is_transfer(t.kind)) t.peer = task(t.peer);
    tasks.push_back(t);
  }
  plan.tasks = std::move(tasks);
  find_members(plan);

  std::vector<ControlEdge> controls;
  for (const ControlEdge& e : plan.controls)
    if (task(e.before).valid() && task(e.after).valid())
      controls.push_back({task(e.before), task(e.after)});
  std::sort(controls.begin(), controls.end(), [](const ControlEdge& a, const ControlEdge& b) {
    return a.after != b.after ? a.after < b.after : a.before < b.before;
  });
  plan.controls = std::move(controls);
  std::vector<BufferSlot> slots;
  for (const BufferSlot& s : plan.slots)
    if (task(s.receive).valid()) slots.push_back({task(s.receive), s.slot});
  std::sort(slots.begin(), slots.end(),
            [](const BufferSlot& a, const BufferSlot& b) { return a.receive < b.receive; });
  plan.slots = std::move(slots);
}

void read_instead(Plan& plan, TensorId old, TensorId instead) {
  for (Task& t : plan.tasks)
    for (TensorId& input : t.inputs)
      if (input == old) input = instead;
}

void set_piece(Plan& plan, Task& task, Piece piece) {
  const auto at = std::find(plan.pieces.begin(), plan.pieces.end(), piece);
  task.piece = {static_cast<std::uint32_t>(at - plan.pieces.begin())};
  if (at == plan.pieces.end()) plan.pieces.push_back(piece);
}
void set_piece(Plan& plan, Task& task, ValueId value, RegionId rows) {
  set_piece(plan, task, {value, rows, plan.program[value].all_columns()});
}
void set_rows(Plan& plan, Task& task, RegionId rows) {
  const Piece& old = plan.piece(task);
  set_piece(plan, task, {old.value, rows, old.columns});
}
void set_value(Plan& plan, Task& task, ValueId value) {
  set_piece(plan, task, value, plan.rows(task));
}

void set_columns(Plan& plan, Task& task, ColumnRange columns) {
  const Piece& old = plan.piece(task);
  set_piece(plan, task, {old.value, old.rows, columns});
}

void restate_completion(Plan& plan) {
  for (Task& t : plan.tasks)
    t.completes =
        outputs_of(t.kind) > 0 && (is_exchange(t.kind) || !plan.program[plan.value(t)].is_sum);
  const auto is_complete = [&](TaskId receive) {
    return receive.value < plan.tasks.size() && plan.tasks[receive.value].completes != 0;
  };
  // Whatever reads a tensor comes later, so it is known by then what its own result is.
  for (auto id = static_cast<std::uint32_t>(plan.tasks.size()); id-- > 0;) {
    const Task& t = plan.tasks[id];
    if (t.kind != TaskKind::Output && t.kind != TaskKind::Prepare && t.kind != TaskKind::Round &&
        !(t.kind == TaskKind::Send && is_complete(t.peer)))
      continue;
    const TaskId maker = t.inputs[0].valid() ? plan.producer(t.inputs[0]) : TaskId{};
    if (maker.valid() && maker.value < plan.tasks.size() &&
        outputs_of(plan.tasks[maker.value].kind) > (t.inputs[0] == plan.output(maker) ? 0 : 1))
      mark_complete(plan, t.inputs[0]);
  }
}

void restate_work(Plan& plan, TaskId id) {
  Task& t = plan.tasks[id.value];
  const Piece piece = plan.piece(t);
  Work work;
  if (is_attend(t.kind)) {
    work = work_of(plan.problem.mask.tile(plan.layout.ranges(plan.regions[piece.rows.value]),
                                          plan.layout.ranges(plan.regions[t.keys.value])),
                   piece.columns.count);
  } else {
    RegionId region = piece.rows;
    if ((is_combine(t.kind)) && t.inputs[1].valid() &&
        t.inputs[1].value < plan.initial.size() + 2 * plan.tasks.size())
      region = plan.tensor(t.inputs[1]).rows;
    const Statement* const s = plan.program.statement(t.kind, piece.value);
    const ValueId value = s ? s->inputs[operation(t.kind).sized_by] : piece.value;
    if (region.value >= plan.regions.size()) return;
    work = work_of(plan.program, value, plan.layout.rows(plan.regions[region.value]),
                   piece.columns.count);
  }
  t.work = PlanTables(plan).id(work);
}

void erase_task(Plan& plan, TaskId t) {
  auto order = identity(plan);
  order.erase(order.begin() + t.value);
  relay(plan, order);
}

void repeat_task(Plan& plan, TaskId t) {
  auto order = identity(plan);
  order.insert(order.begin() + t.value + 1, t.value);
  relay(plan, order);
}

void swap_tasks(Plan& plan, TaskId a, TaskId b) {
  auto order = identity(plan);
  std::swap(order[a.value], order[b.value]);
  relay(plan, order);
}

Plan by_half_the_heads(const Plan& whole, bool given) {
  Plan plan = whole;
  if (!plan.exchanges.empty()) return plan;  // most of these cut heads themselves
  plan.tasks.clear();
  plan.controls.clear();
  plan.slots.clear();
  const auto n = static_cast<std::uint32_t>(plan.initial.size());
  if (given) {
    plan.initial.clear();
    for (const InitialTensor& t : whole.initial)
      for (const std::uint32_t half : {0u, 1u}) {
        const Piece all = whole.piece(t);
        const std::uint32_t columns = all.columns.count / 2;
        Task holder;
        set_piece(plan, holder, {all.value, all.rows, {half * columns, columns}});
        plan.initial.push_back({holder.piece, t.worker});
      }
  }
  const auto first = static_cast<std::uint32_t>(plan.initial.size());
  for (std::uint32_t id = 0; id < whole.tasks.size(); ++id)
    for (const std::uint32_t half : {0u, 1u}) {
      Task t = whole.tasks[id];
      for (TensorId& input : t.inputs)
        if (input.valid() && input.value >= n) {
          const std::uint32_t maker = (input.value - n) / 2, output = (input.value - n) % 2;
          input = {first + 2 * (2 * maker + half) + output};
        } else if (input.valid() && given) {
          input = {2 * input.value + half};
        }
      if (is_transfer(t.kind)) {
        t.peer = {2 * t.peer.value + half};
        t.with_previous = t.with_previous || half == 1;
      }
      const std::uint32_t columns = plan.program[plan.value(t)].columns.count / 2;
      set_columns(plan, t, {half * columns, columns});
      plan.tasks.push_back(t);
      restate_work(plan, {2 * id + half});
    }
  return plan;
}

namespace {

ColumnRange any_columns(const Plan& plan, const Task& t, std::mt19937_64& random) {
  const std::uint32_t all = plan.program[plan.value(t)].columns.count;
  const auto first = static_cast<std::uint32_t>(random() % all);
  return {first, 1 + static_cast<std::uint32_t>(random() % (all - first))};
}

}  // namespace

std::string mutate(Plan& plan, std::mt19937_64& random) {
  const auto any = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  const TaskId id{any(plan.tasks.size())}, other{any(plan.tasks.size())};
  Task& t = plan.tasks[id.value];
  const std::string_view kind = to_text(t.kind);
  const std::function<std::string()> changes[] = {
      [&] {
        erase_task(plan, id);
        return fmt::format("dropped task {} ({})", id.value, kind);
      },
      [&] {
        repeat_task(plan, id);
        return fmt::format("repeated task {} ({})", id.value, kind);
      },
      [&] {
        swap_tasks(plan, id, other);
        return fmt::format("swapped tasks {} and {}", id.value, other.value);
      },
      [&] {
        const TaskId next{std::min<std::uint32_t>(
            id.value + 1, static_cast<std::uint32_t>(plan.tasks.size()) - 1)};
        swap_tasks(plan, id, next);
        return fmt::format("swapped task {} ({}) with the next", id.value, kind);
      },
      [&] {
        TensorId& input = t.inputs[any(3)];
        input = {any(plan.initial.size() + 2 * plan.tasks.size())};
        return fmt::format("task {} ({}) reads tensor {}", id.value, kind, input.value);
      },
      [&] {
        t.inputs[0] = plan.tasks[other.value].inputs[0];
        restate_work(plan, id);
        return fmt::format("task {} ({}) reads what task {} reads", id.value, kind, other.value);
      },
      [&] {
        t.worker_index = static_cast<std::uint16_t>(any(plan.problem.workers));
        return fmt::format("task {} ({}) goes to worker {}", id.value, kind, t.worker_index);
      },
      [&] {
        set_rows(plan, t, {any(plan.regions.size())});
        restate_work(plan, id);
        return fmt::format("task {} ({}) has region {}", id.value, kind, plan.rows(t).value);
      },
      [&] {
        if (is_transfer(t.kind)) {
          t.peer = other;
        } else {
          t.keys = {any(plan.regions.size())};
          restate_work(plan, id);
        }
        return fmt::format("task {} ({}) has other keys or another peer", id.value, kind);
      },
      [&] {
        t.lane = static_cast<Lane>(any(plan.lane_count()));
        return fmt::format("task {} ({}) goes to lane {}", id.value, kind, plan.name(t.lane));
      },
      [&] {
        t.with_previous = !t.with_previous;
        return fmt::format("task {} ({}) joins or leaves its group", id.value, kind);
      },
      [&] {
        if (!plan.controls.empty())
          plan.controls.erase(plan.controls.begin() + any(plan.controls.size()));
        return std::string("dropped a control edge");
      },
      [&] {
        if (!plan.slots.empty()) plan.slots[any(plan.slots.size())].slot = any(3);
        return std::string("gave a receive another buffer");
      },
      // Other heads: of one task, or of a whole line of tasks that hand a tensor on.
      [&] {
        set_columns(plan, t, any_columns(plan, t, random));
        restate_work(plan, id);
        return fmt::format("task {} ({}) has other heads", id.value, kind);
      },
      [&] {
        const ColumnRange columns = any_columns(plan, t, random);
        const ValueId value = plan.value(t);
        for (std::uint32_t i = id.value; i < plan.tasks.size(); ++i)
          if (plan.value(plan.tasks[i]) == value) {
            set_columns(plan, plan.tasks[i], columns);
            restate_work(plan, {i});
          }
        return fmt::format("from task {} on, all {} have other heads", id.value, plan.name(value));
      },
      // Cleaner cuts, which leave nothing dangling.
      [&] {
        if (is_combine(t.kind)) {
          read_instead(plan, plan.output(id), t.inputs[any(2)]);
          erase_task(plan, id);
        }
        return fmt::format("left out task {} if it merges", id.value);
      },
      [&] {
        if (is_combine(t.kind)) {
          read_instead(plan, plan.output(id), t.inputs[0]);
          t.kind = TaskKind::Output;
          t.inputs = {t.inputs[1], {}, {}};
          set_rows(plan, t, plan.tensor(t.inputs[0]).rows);
          restate_work(plan, id);
        }
        return fmt::format("task {} puts out, if it merged", id.value);
      },
      [&] {
        if (is_combine(t.kind)) {
          const TensorId added = t.inputs[1];
          repeat_task(plan, id);
          read_instead(plan, plan.output(id), plan.output({id.value + 1}));
          plan.tasks[id.value + 1].inputs = {plan.output(id), added, {}};
          restate_work(plan, {id.value + 1});
        }
        return fmt::format("added what task {} adds again, if it merges", id.value);
      },
      [&] {
        if (is_transfer(t.kind) && t.peer.value < plan.tasks.size()) {
          set_rows(plan, t, {any(plan.regions.size())});
          set_rows(plan, plan.tasks[t.peer.value], plan.rows(t));
          restate_work(plan, id);
          restate_work(plan, t.peer);
        }
        return fmt::format("both halves of transfer {} carry region {}", id.value,
                           plan.rows(t).value);
      },
      [&] {
        if (t.kind == TaskKind::Output) erase_task(plan, id);
        return fmt::format("left out task {} if it puts out", id.value);
      },
      // Terms, and marks of completeness.
      [&] {
        const bool done = is_attend(t.kind) && leave_out_terms(plan, id);
        return fmt::format("left out the terms of task {}{}", id.value, done ? "" : ", not at all");
      },
      [&] {
        if (is_attend(t.kind)) double_terms(plan, id);
        return fmt::format("doubled the terms of task {} if it attends", id.value);
      },
      [&] {
        // What comes first into a sum is called the sum, and read as that.
        if (is_combine(t.kind) && t.completes != 0)
          read_instead(plan, plan.output(id), t.inputs[any(2)]);
        return fmt::format("task {} ends its sum one term early, if it ends one", id.value);
      },
      [&] {
        if (is_attend(t.kind)) {
          const std::uint32_t group = plan.program[attention::kKeyValue].columns.group;
          const std::uint32_t first = plan.piece(t).columns.first / group * group;
          set_columns(plan, t, {first + any(group), 1});
          restate_work(plan, id);
        }
        return fmt::format("task {} attends one head of its first group", id.value);
      },
      [&] {
        if (t.kind == TaskKind::Attend) {
          // The same attend again, merged behind the first merge that takes it.
          repeat_task(plan, id);
          const TensorId again = plan.output({id.value + 1});
          for (std::uint32_t m = id.value + 2; m < plan.tasks.size(); ++m)
            if (plan.tasks[m].kind == TaskKind::Merge &&
                plan.tasks[m].worker_index == plan.tasks[id.value].worker_index) {
              const TensorId merged = plan.output({m + 1});
              repeat_task(plan, {m});
              read_instead(plan, plan.output({m}), merged);
              plan.tasks[m + 1].inputs = {plan.output({m}), again, {}};
              restate_work(plan, {m + 1});
              break;
            }
        }
        return fmt::format("computed task {} again and merged it, if it attends", id.value);
      },
  };
  const std::string what = changes[any(std::size(changes))]();
  restate_completion(plan);
  if (any(8) != 0) return what;
  Task& one = plan.tasks[any(plan.tasks.size())];
  one.completes = one.completes ^ 1u;
  return what + ", and changed a mark of completeness";
}

TaskId find_task(const Plan& plan, TaskKind kind, std::uint32_t worker, int n) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == kind && plan.tasks[id].worker_index == worker && n-- == 0)
      return {id};
  throw std::logic_error("the test names a task that is not there");
}

void move_for_nothing(Plan& plan) {
  Task send, receive;
  send.kind = TaskKind::Send;
  receive.kind = TaskKind::Receive;
  set_piece(plan, send, attention::kKeyValue, {2});
  receive.piece = send.piece;
  receive.completes = 1;
  send.lane = receive.lane = Lane::Fetch;
  send.worker_index = 2;
  send.work = receive.work = plan.tasks[find_task(plan, TaskKind::Receive, 1).value].work;
  send.inputs[0] = {3 + 2};
  send.step = receive.step = 2;
  const auto next = static_cast<std::uint32_t>(plan.tasks.size());
  send.peer = {next + 1};
  receive.peer = {next};
  plan.tasks.push_back(send);
  plan.tasks.push_back(receive);
}

}  // namespace ringsched
