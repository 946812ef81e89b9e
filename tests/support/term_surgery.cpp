#include "support/term_surgery.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "ringsched/scheduler/plan_tables.hpp"
#include "support/surgery.hpp"

namespace ringsched {

namespace {

// The one task that takes a partial tensor, or none.
TaskId user_of(const Plan& plan, TensorId tensor) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (!is_combine(t.kind) && t.kind != TaskKind::Send) continue;
    if (std::find(t.inputs.begin(), t.inputs.end(), tensor) != t.inputs.end()) return {id};
  }
  return {};
}

TensorId other_input(const Task& combine, TensorId one) {
  return combine.inputs[0] == one ? combine.inputs[1] : combine.inputs[0];
}

// A transfer that is posted with one of these is then posted with what that was posted with.
void erase_tasks(Plan& plan, const std::set<std::uint32_t>& tasks) {
  for (auto id = tasks.rbegin(); id != tasks.rend(); ++id) {
    const Task gone = plan.tasks[*id];
    for (std::uint32_t next = *id + 1; next < plan.tasks.size(); ++next) {
      Task& t = plan.tasks[next];
      if (t.worker_index != gone.worker_index || t.lane != gone.lane) continue;
      t.with_previous = t.with_previous && gone.with_previous;
      break;
    }
    erase_task(plan, {*id});
  }
}

}  // namespace

bool leave_out_terms(Plan& plan, TaskId attend) {
  Plan changed = plan;
  std::set<std::uint32_t> gone = {attend.value};
  for (std::uint32_t out = 0; out < outputs_of(plan.tasks[attend.value].kind); ++out)
    for (TensorId t = plan.output(attend, out);;) {
      const TaskId user = user_of(changed, t);
      if (!user.valid()) return false;
      gone.insert(user.value);
      const Task& task = changed.tasks[user.value];
      if (task.kind == TaskKind::Send) {
        gone.insert(task.peer.value);
        t = changed.output(task.peer);
        continue;
      }
      const TensorId rest = other_input(task, t);
      // What is left must hold the same rows, as tasks read them.
      if (changed.tensor(rest).rows != changed.rows(task)) return false;
      const bool completes = task.completes_output();
      read_instead(changed, changed.output(user), rest);
      if (completes) mark_complete(changed, rest);
      break;
    }
  erase_tasks(changed, gone);
  plan = std::move(changed);
  return true;
}

void double_terms(Plan& plan, TaskId attend) {
  const std::uint32_t outputs = outputs_of(plan.tasks[attend.value].kind);
  const Task task = plan.tasks[attend.value];
  for (std::uint32_t i = 0; i < outputs + 1; ++i) repeat_task(plan, attend);
  const TaskId again{attend.value + 1};
  for (std::uint32_t out = 0; out < outputs; ++out) {
    const TaskId sum{attend.value + 2 + out};
    const Tensor tensor = plan.tensor(plan.output(attend, out));
    read_instead(plan, plan.output(attend, out), plan.output(sum));
    Task& adds = plan.tasks[sum.value];
    adds = Task();
    const bool softmax = plan.program.type(tensor.value).algebra == Algebra::Softmax;
    adds.kind = softmax ? TaskKind::Merge : TaskKind::Reduce;
    adds.worker_index = task.worker_index;
    adds.step = task.step;
    set_piece(plan, adds, {tensor.value, tensor.rows, tensor.columns});
    adds.inputs = {plan.output(attend, out), plan.output(again, out), {}};
    adds.completes = task.completes >> out & 1;
    restate_work(plan, sum);
  }
  plan.tasks[attend.value].completes = plan.tasks[again.value].completes = 0;
}

bool compute_again(Plan& plan, TensorId sum) {
  std::set<std::uint32_t> tree = {plan.producer(sum).value};
  for (auto at = tree.rbegin(); at != tree.rend(); ++at) {
    const Task& t = plan.tasks[*at];
    if (outputs_of(t.kind) != 1 || is_transfer(t.kind)) return false;
    if (!is_combine(t.kind)) continue;
    for (const TensorId input : {t.inputs[0], t.inputs[1]}) {
      const TaskId maker = plan.producer(input);
      if (!maker.valid()) return false;
      tree.insert(maker.value);
    }
  }
  // Each copy stands behind its task, so ids move on by those before.
  std::uint32_t copies = 0;
  for (const std::uint32_t old : tree) {
    const std::uint32_t id = old + copies++;
    repeat_task(plan, {id});
    if (is_combine(plan.tasks[id].kind))
      for (std::size_t i = 0; i < 2; ++i) plan.tasks[id + 1].inputs[i].value += 2;
  }
  const TaskId root{*tree.rbegin() + copies - 1};
  for (Task& t : plan.tasks)
    if (t.kind == TaskKind::Prepare && t.inputs[0] == plan.output(root))
      t.inputs[0] = plan.output({root.value + 1});
  return true;
}

void prepare_at_receiver(Plan& plan, TaskId send) {
  const TensorId prepared = plan.tasks[send.value].inputs[0];
  const Task prepare = plan.tasks[plan.producer(prepared).value];
  const RegionId rows = plan.rows(plan.tasks[send.value]);
  const TaskId receive = plan.tasks[send.value].peer;
  repeat_task(plan, receive);
  repeat_task(plan, receive);
  repeat_task(plan, send);
  const TaskId first{receive.value + 1}, second{first.value + 1}, instead{second.value + 1};
  read_instead(plan, plan.output(first), plan.output(instead));
  const auto carry = [&](TaskId from, TaskId to, TensorId tensor) {
    for (const TaskId id : {from, to}) {
      Task& t = plan.tasks[id.value];
      const Tensor what = plan.tensor(tensor);
      set_piece(plan, t, {what.value, rows, what.columns});
      t.peer = id == from ? to : from;
      restate_work(plan, id);
    }
    plan.tasks[from.value].inputs[0] = tensor;
    plan.tasks[to.value].completes = 1;
  };
  carry(send, first, prepare.inputs[0]);
  carry({send.value + 1}, second, prepare.inputs[1]);
  plan.tasks[send.value + 1].with_previous = plan.tasks[second.value].with_previous = true;
  Task& there = plan.tasks[instead.value];
  there.kind = TaskKind::Prepare;
  there.lane = Lane::Compute;
  there.with_previous = false;
  there.peer = TaskId{};
  there.inputs = {plan.output(first), plan.output(second), {}};
  restate_work(plan, instead);
  // What it needs is a whole group before it.
  const Task& came = plan.tasks[second.value];
  for (std::uint32_t id = instead.value + 1; id < plan.tasks.size(); ++id)
    if (Task& t = plan.tasks[id]; t.worker_index == came.worker_index && t.lane == came.lane) {
      t.with_previous = false;
      break;
    }
}

}  // namespace ringsched
