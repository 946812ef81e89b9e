// Deadlock freedom, by running the plan without time. A group of transfers is posted when the lane
// is free and its data are there, and is complete when every partner is posted too: sends that wait
// for their receives, which is the least that a transport promises. Whatever order this run takes,
// the same tasks end: each step only enables others. If some never do, each stuck lane waits for
// one task of a stuck lane, so following the waits from any of them runs into a cycle, which is the
// counterexample.
//
// Most plans list their tasks in an order in which they can run. Two passes over the list prove
// that (ListedOrder), at a fifth of the cost of running lane after lane.
#include <algorithm>

#include "internal.hpp"

namespace ringsched {

namespace {

// The edges of plan.controls that end at any task.
class ControlIndex {
 public:
  explicit ControlIndex(const Plan& plan)
      : edges_(plan.controls), first_(edges_.empty() ? 0 : plan.tasks.size() + 1) {
    for (const ControlEdge& e : edges_) ++first_[e.after.value + 1];
    for (std::size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
  }
  std::span<const ControlEdge> before(TaskId task) const {
    if (first_.empty()) return {};
    return edges_.subspan(first_[task.value], first_[task.value + 1] - first_[task.value]);
  }

 private:
  std::span<const ControlEdge> edges_;
  std::vector<std::uint32_t> first_;
};

// Tries one order of events: each group is posted when its last member is listed, and is complete
// once the groups of all partners are posted. Deadlock is impossible if everything a task waits for
// is complete before the task is listed. The opposite does not follow: then LaneRun decides.
class ListedOrder {
 public:
  explicit ListedOrder(const Plan& plan)
      : plan_(plan), lanes_(plan), posted_(plan.tasks.size()), complete_(plan.tasks.size()) {
    find_posted();
  }

  bool runs() {
    ControlsInOrder controls(plan_);
    // The group that each lane listed last.
    std::vector<std::uint32_t> before(lanes_.all, kNone);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      const std::uint32_t group = posted_[id];
      std::uint32_t& earlier = before[lanes_.of(task)];
      if (earlier != group && earlier != kNone && complete_[earlier] >= id) return false;
      earlier = group;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = input.valid() ? plan_.producer(input) : TaskId{};
            maker.valid() && !complete_before(maker, id))
          return false;
      for (const ControlEdge& e : controls.before_next({id}))
        if (!complete_before(e.before, id)) return false;
      const std::uint32_t partner = is_transfer(task.kind) ? posted_[task.peer.value] : group;
      complete_[group] = std::max({complete_[group], group, partner});
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  void find_posted() {
    std::vector<std::uint32_t> last(lanes_.all, kNone);
    for (auto id = static_cast<std::uint32_t>(plan_.tasks.size()); id-- > 0;) {
      const Task& task = plan_.tasks[id];
      std::uint32_t& group = last[lanes_.of(task)];
      if (group == kNone) group = id;
      posted_[id] = group;
      if (!task.with_previous) group = kNone;
    }
  }

  // A group with members still to come is not complete.
  bool complete_before(TaskId task, std::uint32_t id) const {
    const std::uint32_t group = posted_[task.value];
    return group < id && complete_[group] < id;
  }

  const Plan& plan_;
  const LaneNumbers lanes_;
  TaskColumn<std::uint32_t> posted_;    // by task: the last member of its group, which names it
  TaskColumn<std::uint32_t> complete_;  // by group: the task whose listing completes it, so far
};

class LaneRun {
 public:
  LaneRun(const Plan& plan, const Lanes& lanes)
      : plan_(plan),
        lanes_(lanes),
        controls_(plan),
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
  const ControlIndex controls_;
  std::vector<State> state_;
  std::vector<std::uint32_t> first_waiter_;  // per task: the lanes that wait for it, as a list
  std::vector<LaneState> lane_;
  std::vector<std::uint32_t> runnable_;
};

}  // namespace

void verify_deadlock(const Plan& plan, Findings& findings) {
  if (ListedOrder(plan).runs()) return;
  const Lanes lanes(plan);
  LaneRun run(plan, lanes);
  run.run();
  const auto lane_of = [&](TaskId id) { return lanes.numbers.of(plan.tasks[id.value]); };

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
