#include "ringsched/scheduler/overlap.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kNames[] = {"none", "prefetch", "unbounded"};

// Puts everything of a worker on one lane. What it posts in one step, with no computing in between,
// becomes one group: a send must not wait for a receive that happens to come before it. A task that
// hands on a tensor of the group starts the next group.
void serialise(Plan& plan) {
  std::vector<TaskId> first(plan.problem.workers);  // of the open group; none: nothing is posted
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    Task& task = plan.tasks[id];
    TaskId& open = first[task.worker_index];
    if (is_transfer(task.kind)) {
      const TaskId maker = task.inputs[0].valid() ? plan.producer(task.inputs[0]) : TaskId{};
      const bool hands_on = open.valid() && maker.valid() && maker >= open;
      task.lane = Lane::Compute;
      task.with_previous = open.valid() && plan.tasks[open.value].step == task.step && !hands_on;
      if (!task.with_previous) open = {id};
    } else {
      if (is_exchange(task.kind)) task.lane = Lane::Compute;
      open = {};
    }
  }
}

// The last task of each of the last three steps of some lane: no rule looks further back than two
// steps, and steps come in order.
class StepEnds {
 public:
  bool is_new(Step step) const { return ends_[0].step != step; }
  void add(Step step, TaskId id) {
    if (is_new(step)) ends_ = {ends_[0], ends_[0], ends_[1]};
    ends_[0] = {step, id};
  }
  // The last task of a step up to `step`, or none.
  TaskId last_up_to(std::int64_t step) const {
    for (const End& e : ends_)
      if (e.step <= step) return e.last;
    return {};
  }

 private:
  struct End {
    Step step = ~Step{0};
    TaskId last;
  };
  std::array<End, 3> ends_;  // the last step first
};

// Orders communication and computation.
//
// What step t needs may move once step t - 2 has ended, that is while step t - 1 computes. Results
// that go home in step t were made in step t - 1, so their receives are posted once that has ended
// here too: earlier they would only hold a transfer's resources. Lanes that a schedule made have a
// clock of their own: what step t needs of such a lane may move once the steps before the last that
// needed something of it have ended.
//
// And step t waits until everything moved for step t - 1 has arrived, at both ends. Without this
// second half, a helper could run ahead of the workers that take its results; it bounds the memory
// of both.
void prefetch_one_step(Plan& plan) {
  struct Tick {
    TaskId may_move, next_may_move;
  };
  const LaneNumbers lanes(plan);
  std::vector<StepEnds> ends(lanes.all);
  std::vector<Tick> ticks(lanes.all);
  plan.controls.reserve(plan.tasks.size() / 2);  // memory that is never filled costs nothing
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const StepEnds* const worker = &ends[lanes.of(task.worker(), Lane::Compute)];
    StepEnds& own = ends[lanes.of(task)];
    const std::int64_t step = task.step;
    const auto wait_for = [&](TaskId before) {
      if (before.valid()) plan.controls.push_back({before, {id}});
    };
    if (task.lane == Lane::Compute) {
      if (own.is_new(task.step)) {
        const auto first = static_cast<std::ptrdiff_t>(plan.controls.size());
        for (std::uint32_t l = 1; l < lanes.per_worker; ++l)
          wait_for(worker[l].last_up_to(step - 1));
        if (plan.controls.end() - plan.controls.begin() > first + 1)
          std::ranges::sort(plan.controls.begin() + first, plan.controls.end(), {},
                            &ControlEdge::before);
      }
    } else if (task.lane == Lane::Fetch || task.lane == Lane::Return) {
      if (!task.with_previous)
        wait_for(worker[0].last_up_to(step - (task.lane == Lane::Return ? 1 : 2)));
    } else {
      Tick& tick = ticks[lanes.of(task)];
      if (own.is_new(task.step)) tick = {tick.next_may_move, worker[0].last_up_to(step - 1)};
      if (!task.with_previous) wait_for(tick.may_move);
    }
    own.add(task.step, {id});
  }
}

// Puts received tensors into `buffers` slots in turn. A slot is free for the next tensor once the
// last reader of the previous one has ended, in each lane that reads it.
void assign_buffers(Plan& plan, std::uint32_t buffers) {
  const LaneNumbers lanes(plan);
  using Readers = std::array<TaskId, kMostLanes>;
  std::vector<Readers> last_reader(plan.tasks.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    for (const TensorId input : plan.tasks[id].inputs)
      if (const TaskId maker = input.valid() ? plan.producer(input) : TaskId{}; maker.valid())
        last_reader[maker.value][static_cast<std::size_t>(plan.tasks[id].lane)] = {id};

  std::vector<TaskId> leader(lanes.all);  // of the open group
  std::vector<std::vector<TaskId>> received(std::size_t{plan.problem.workers} *
                                            plan.program.size());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (!is_transfer(task.kind)) continue;
    TaskId& group = leader[lanes.of(task)];
    if (!task.with_previous) group = {id};
    if (task.kind != TaskKind::Receive) continue;

    auto& earlier =
        received[task.worker_index * std::size_t{plan.program.size()} + plan.value(task).value];
    if (earlier.size() >= buffers) {
      for (const TaskId reader : last_reader[earlier[earlier.size() - buffers].value]) {
        if (!reader.valid()) continue;
        if (reader >= group)
          fail(
              "{} needs more than {} {} buffer{} per worker (--buffers 0 gives it enough): in step "
              "{}, "
              "worker {} would overwrite a buffer that task {} ({}) has yet to read",
              printable(plan.schedule), buffers, plan.name(plan.value(task)),
              buffers == 1 ? "" : "s", task.step, task.worker_index, reader.value,
              to_text(plan.tasks[reader.value].kind));
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
  const auto order = [](const ControlEdge& e) { return std::pair(e.after, e.before); };
  if (!std::ranges::is_sorted(plan.controls, {}, order))
    std::ranges::sort(plan.controls, {}, order);
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
