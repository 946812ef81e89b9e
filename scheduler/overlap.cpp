#include "ringsched/scheduler/overlap.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "nearest.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kNames[] = {"none", "prefetch", "unbounded"};

// Everything a worker does goes on one lane. What it posts in one step, with nothing computed in
// between, becomes one group: a send must not wait for a receive that stands before it by chance.
void serialise(Plan& plan) {
  std::vector<Step> posted(plan.problem.workers, 0);  // 1 + step of an open group; 0: none
  for (Task& task : plan.tasks) {
    Step& open = posted[task.worker_index];
    if (is_transfer(task.kind)) {
      task.lane = Lane::Compute;
      task.with_previous = open == task.step + 1;
      open = task.step + 1;
    } else {
      open = 0;
    }
  }
}

void prefetch_one_step(Plan& plan) {
  struct StepEnd {
    Step step;
    TaskId last;  // the last compute task of that step
  };
  std::vector<std::vector<StepEnd>> computed(plan.problem.workers);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    auto& ends = computed[task.worker_index];
    if (task.lane == Lane::Compute) {
      if (ends.empty() || ends.back().step != task.step) ends.push_back({task.step, {}});
      ends.back().last = {id};
    } else if (!task.with_previous) {
      const auto two_before = std::find_if(
          ends.rbegin(), ends.rend(), [&](const StepEnd& e) { return e.step + 2 <= task.step; });
      if (two_before != ends.rend()) plan.controls.push_back({two_before->last, {id}});
    }
  }
}

// Puts what is received into `buffers` slots in turn. A slot is free for the next tensor once the
// last reader of the one before has ended, in each lane that reads it.
void assign_buffers(Plan& plan, std::uint32_t buffers) {
  using Readers = std::array<TaskId, kLanes>;
  std::vector<Readers> last_reader(plan.tasks.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    for (const TensorId input : plan.tasks[id].inputs)
      if (const TaskId maker = input.valid() ? plan.producer(input) : TaskId{}; maker.valid())
        last_reader[maker.value][static_cast<std::size_t>(plan.tasks[id].lane)] = {id};

  std::vector<TaskId> leader(std::size_t{plan.problem.workers} * kLanes);  // of the open group
  std::vector<std::vector<TaskId>> received(std::size_t{plan.problem.workers} * kTensorKinds);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (!is_transfer(task.kind)) continue;
    TaskId& group =
        leader[task.worker_index * std::size_t{kLanes} + static_cast<std::size_t>(task.lane)];
    if (!task.with_previous) group = {id};
    if (task.kind != TaskKind::Receive) continue;

    auto& earlier = received[task.worker_index * std::size_t{kTensorKinds} +
                             static_cast<std::size_t>(task.makes)];
    if (earlier.size() >= buffers) {
      for (const TaskId reader : last_reader[earlier[earlier.size() - buffers].value]) {
        if (!reader.valid()) continue;
        if (reader >= group)
          fail(
              "{} needs more than {} {} buffer{} per worker: at step {} worker {} would receive "
              "into "
              "one that its task {} ({}) still reads",
              plan.schedule, buffers, to_text(task.makes), buffers == 1 ? "" : "s", task.step,
              task.worker_index, reader.value, to_text(plan.tasks[reader.value].kind));
        plan.controls.push_back({reader, {id}});
      }
    }
    plan.slots.push_back({{id}, static_cast<std::uint32_t>(earlier.size() % buffers)});
    earlier.push_back({id});
  }
}

}  // namespace

Plan limit_communication(Plan plan, CommunicationLimits limits) {
  if (limits.overlap == Overlap::None) serialise(plan);
  if (limits.overlap == Overlap::Prefetch) prefetch_one_step(plan);
  if (limits.buffers > 0) assign_buffers(plan, limits.buffers);
  std::sort(plan.controls.begin(), plan.controls.end(), [](ControlEdge a, ControlEdge b) {
    return std::tie(a.after, a.before) < std::tie(b.after, b.before);
  });
  plan.controls.erase(std::unique(plan.controls.begin(), plan.controls.end()), plan.controls.end());
  return plan;
}

std::string_view to_text(Overlap overlap) { return kNames[static_cast<std::size_t>(overlap)]; }

Overlap parse_overlap(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<Overlap>(i);
  throw Error(unknown_name("overlap mode", text, kNames));
}

}  // namespace ringsched
