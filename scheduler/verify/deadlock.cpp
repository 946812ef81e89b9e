// Deadlock freedom, by running the plan without time. A group of transfers is posted when the lane
// is free and its data are there, and is complete when every partner is posted too: sends that wait
// for their receives, which is the least that a transport promises. Whatever order this run takes,
// the same tasks end: each step only enables others. If some never do, each stuck lane waits for
// one task of a stuck lane, so following the waits from any of them runs into a cycle, which is the
// counterexample.
#include <algorithm>

#include "internal.hpp"

namespace ringsched {

namespace {

class LaneRun {
 public:
  LaneRun(const Plan& plan, const Lanes& lanes, const ControlIndex& controls)
      : plan_(plan),
        lanes_(lanes),
        controls_(controls),
        state_(plan.tasks.size()),
        first_waiter_(plan.tasks.size(), kNone),
        lane_(lanes.count()) {
    for (std::size_t l = 0; l < lanes.count(); ++l) {
      lane_[l].at = lanes.first[l];
      runnable_.push_back(static_cast<std::uint32_t>(l));
    }
  }

  void run() {
    while (!runnable_.empty()) {
      const std::uint32_t lane = runnable_.back();
      runnable_.pop_back();
      advance(lane);
    }
  }

  bool stuck(std::size_t lane) const { return lane_[lane].at < lanes_.first[lane + 1]; }
  TaskId head(std::size_t lane) const { return lanes_.tasks[lane_[lane].scan]; }
  TaskId awaited(std::size_t lane) const { return lane_[lane].awaited; }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  enum State : std::uint8_t { Waiting, Posted, Done };
  struct LaneState {
    std::uint32_t at = 0;    // the first task of the group at the head
    std::uint32_t scan = 0;  // how far its members have been looked at
    bool posted = false;
    TaskId awaited;
    std::uint32_t next_waiter = kNone;
  };

  std::uint32_t group_end(std::size_t lane, std::uint32_t at) const {
    std::uint32_t end = at + 1;
    while (end < lanes_.first[lane + 1] && plan_.tasks[lanes_.tasks[end].value].with_previous)
      ++end;
    return end;
  }

  void advance(std::uint32_t lane) {
    LaneState& l = lane_[lane];
    if (l.scan < l.at) l.scan = l.at;
    while (l.at < lanes_.first[lane + 1]) {
      const std::uint32_t end = group_end(lane, l.at);
      if (!l.posted) {
        for (; l.scan < end; ++l.scan)
          if (const TaskId missing = unfinished_input(lanes_.tasks[l.scan]); missing.valid())
            return wait(lane, missing);
        l.posted = true;
        mark(l.at, end, Posted);
        l.scan = l.at;
      }
      for (; l.scan < end; ++l.scan) {
        const Task& task = plan_.tasks[lanes_.tasks[l.scan].value];
        if (is_transfer(task.kind) && state_[task.peer.value] == Waiting)
          return wait(lane, task.peer);
      }
      mark(l.at, end, Done);
      l.at = l.scan = end;
      l.posted = false;
    }
  }

  TaskId unfinished_input(TaskId id) const {
    for (const TensorId input : plan_.tasks[id.value].inputs)
      if (const TaskId maker = input.valid() ? plan_.producer(input) : TaskId{};
          maker.valid() && state_[maker.value] != Done)
        return maker;
    for (const ControlEdge& e : controls_.before(id))
      if (state_[e.before.value] != Done) return e.before;
    return {};
  }

  void wait(std::uint32_t lane, TaskId task) {
    lane_[lane].awaited = task;
    lane_[lane].next_waiter = first_waiter_[task.value];
    first_waiter_[task.value] = lane;
  }

  void mark(std::uint32_t at, std::uint32_t end, State state) {
    for (; at < end; ++at) {
      const std::uint32_t task = lanes_.tasks[at].value;
      state_[task] = state;
      for (std::uint32_t w = first_waiter_[task]; w != kNone; w = lane_[w].next_waiter)
        runnable_.push_back(w);
      first_waiter_[task] = kNone;
    }
  }

  const Plan& plan_;
  const Lanes& lanes_;
  const ControlIndex& controls_;
  std::vector<State> state_;
  std::vector<std::uint32_t> first_waiter_;  // per task: the lanes that wait for it, as a list
  std::vector<LaneState> lane_;
  std::vector<std::uint32_t> runnable_;
};

}  // namespace

void verify_deadlock(const Plan& plan, const Lanes& lanes, const ControlIndex& controls,
                     Findings& findings) {
  LaneRun run(plan, lanes, controls);
  run.run();
  const auto lane_of = [&](TaskId id) { return Lanes::of(plan.tasks[id.value]); };

  std::size_t lane = 0;
  while (lane < lanes.count() && !run.stuck(lane)) ++lane;
  if (lane == lanes.count()) return;

  std::vector<bool> passed(lanes.count());
  while (!passed[lane]) {
    passed[lane] = true;
    lane = lane_of(run.awaited(lane));
  }
  std::vector<TaskId> tasks;
  std::string text;
  const std::size_t start = lane;
  do {
    const TaskId waiting = run.head(lane), awaited = run.awaited(lane);
    lane = lane_of(awaited);
    text += fmt::format("{}{} waits for {}", tasks.empty() ? "" : "; ", name_of(plan, waiting),
                        name_of(plan, awaited));
    if (const TaskId behind = run.head(lane); behind != awaited)
      text += fmt::format(", which comes only after task {}", behind.value);
    tasks.push_back(waiting);
  } while (lane != start);
  findings.add(Rule::Deadlock, std::move(tasks), "{}", text);
}

}  // namespace ringsched
