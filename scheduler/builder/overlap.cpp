#include "ringsched/scheduler/overlap.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

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

struct StepEnd {
  Step step;
  TaskId last;  // the last task of that step in some lane
};

// The last task of a step up to `step`, or none. Steps come in order, so it is near the end.
TaskId last_up_to(const std::vector<StepEnd>& ends, std::int64_t step) {
  const auto found =
      std::find_if(ends.rbegin(), ends.rend(), [&](const StepEnd& e) { return e.step <= step; });
  return found == ends.rend() ? TaskId{} : found->last;
}

// What step t needs may be moved once step t - 2 has ended, that is while step t - 1 computes.
// Results on their way home in step t were made in step t - 1, so a receive of them is posted once
// that has ended here too: earlier it would only hold what a transfer holds. And step t waits until
// all that was moved for step t - 1 has arrived, at both ends. The second half is what keeps a
// helper from running ahead of those who take its results, and bounds the memory of both.
void prefetch_one_step(Plan& plan) {
  std::vector<std::vector<StepEnd>> ends(std::size_t{plan.problem.workers} * kLanes);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const std::size_t compute = task.worker_index * std::size_t{kLanes};
    auto& own = ends[compute + static_cast<std::size_t>(task.lane)];
    const bool new_step = own.empty() || own.back().step != task.step;
    const auto wait_for = [&](std::size_t lane, std::int64_t step) {
      if (const TaskId before = last_up_to(ends[lane], step); before.valid())
        plan.controls.push_back({before, {id}});
    };
    if (task.lane != Lane::Compute) {
      if (!task.with_previous)
        wait_for(compute, std::int64_t{task.step} - (task.lane == Lane::Return ? 1 : 2));
    } else if (new_step) {
      for (std::size_t lane = 1; lane < kLanes; ++lane)
        wait_for(compute + lane, std::int64_t{task.step} - 1);
    }
    if (new_step) own.push_back({task.step, {}});
    own.back().last = {id};
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
              printable(plan.schedule), buffers, to_text(task.makes), buffers == 1 ? "" : "s",
              task.step, task.worker_index, reader.value, to_text(plan.tasks[reader.value].kind));
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
