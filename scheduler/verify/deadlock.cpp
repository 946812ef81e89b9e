// Deadlock freedom, by running the plan without time. A group of transfers is posted when the lane
// is free and its data are there, and is complete when every partner is posted too: sends that wait
// for their receives, which is the least that a transport promises, and members of an exchange that
// wait for all others. Whatever order this run takes,
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

// Tries one order of events: each group is posted when its last member is listed, and is complete
// once the groups of all partners are posted. Deadlock is impossible if everything a task waits for
// is complete before the task is listed. The opposite does not follow: then LaneRun decides.
class ListedOrder {
 public:
  explicit ListedOrder(const Plan& plan)
      : plan_(plan), posted_(groups_of(plan)), complete_(plan.tasks.size()) {}

  bool runs() {
    auto edge = plan_.controls.begin();
    const LaneNumbers lanes(plan_);
    std::vector<std::uint32_t> before(lanes.all, kNone);  // the group that each lane listed last
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      const std::uint32_t group = posted_[id];
      std::uint32_t& earlier = before[lanes.of(task)];
      if (earlier != group && earlier != kNone && complete_[earlier] >= id) return false;
      earlier = group;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(plan_, input);
            maker.valid() && !complete_before(maker, id))
          return false;
      for (; edge != plan_.controls.end() && edge->after.value == id; ++edge)
        if (!complete_before(edge->before, id)) return false;
      const std::uint32_t partner = is_transfer(task.kind)   ? posted_[task.peer.value]
                                    : is_exchange(task.kind) ? plan_.exchange(task).end() - 1
                                                             : group;
      complete_[group] = std::max({complete_[group], group, partner});
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  // A group with members still to come is not complete.
  bool complete_before(TaskId task, std::uint32_t id) const {
    const std::uint32_t group = posted_[task.value];
    return group < id && complete_[group] < id;
  }

  const Plan& plan_;
  const TaskColumn<std::uint32_t>
      posted_;                          // by task: its group, which is posted when that is listed
  TaskColumn<std::uint32_t> complete_;  // by group: the task whose listing completes it, so far
};

class LaneRun {
 public:
  explicit LaneRun(const Plan& plan)
      : plan_(plan),
        lanes_(LaneNumbers(plan).all),
        state_(plan.tasks.size()),
        first_waiter_(plan.tasks.size(), kNone) {
    const LaneNumbers numbers(plan);
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
      lanes_[numbers.of(plan.tasks[id])].tasks.push_back({id});
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) runnable_.push_back(l);
  }

  void run() {
    while (!runnable_.empty()) {
      const std::uint32_t lane = runnable_.back();
      runnable_.pop_back();
      advance(lane);
    }
  }

  bool stuck(std::size_t lane) const { return lanes_[lane].at < lanes_[lane].tasks.size(); }
  TaskId head(std::size_t lane) const { return lanes_[lane].tasks[lanes_[lane].scan]; }
  TaskId awaited(std::size_t lane) const { return lanes_[lane].awaited; }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  enum State : std::uint8_t { Waiting, Posted, Done };
  struct LaneState {
    std::vector<TaskId> tasks;
    std::size_t at = 0;    // the first task of the group at the head
    std::size_t scan = 0;  // how far its members have been looked at
    bool posted = false;
    TaskId awaited;
    std::uint32_t next_waiter = kNone;
  };

  std::size_t group_end(const LaneState& l) const {
    std::size_t end = l.at + 1;
    while (end < l.tasks.size() && plan_.tasks[l.tasks[end].value].with_previous) ++end;
    return end;
  }

  void advance(std::uint32_t lane) {
    LaneState& l = lanes_[lane];
    while (l.at < l.tasks.size()) {
      const std::size_t end = group_end(l);
      if (!l.posted) {
        for (; l.scan < end; ++l.scan)
          if (const TaskId missing = unfinished_input(l.tasks[l.scan]); missing.valid())
            return wait(lane, missing);
        l.posted = true;
        mark(l, end, Posted);
        l.scan = l.at;
      }
      for (; l.scan < end; ++l.scan) {
        const Task& task = plan_.tasks[l.tasks[l.scan].value];
        if (is_transfer(task.kind) && state_[task.peer.value] == Waiting)
          return wait(lane, task.peer);
        if (!is_exchange(task.kind)) continue;
        const Exchange& e = plan_.exchange(task);
        for (std::uint32_t m = e.first.value; m < e.end(); ++m)
          if (state_[m] == Waiting) return wait(lane, {m});
      }
      mark(l, end, Done);
      l.at = l.scan = end;
      l.posted = false;
    }
  }

  TaskId unfinished_input(TaskId id) const {
    for (const TensorId input : plan_.tasks[id.value].inputs)
      if (const TaskId maker = maker_of(plan_, input); maker.valid() && state_[maker.value] != Done)
        return maker;
    for (auto e = std::ranges::lower_bound(plan_.controls, id, {}, &ControlEdge::after);
         e != plan_.controls.end() && e->after == id; ++e)
      if (state_[e->before.value] != Done) return e->before;
    return {};
  }

  void wait(std::uint32_t lane, TaskId task) {
    lanes_[lane].awaited = task;
    lanes_[lane].next_waiter = first_waiter_[task.value];
    first_waiter_[task.value] = lane;
  }

  // All of the group that ends at `end`.
  void mark(const LaneState& l, std::size_t end, State state) {
    for (std::size_t i = l.at; i < end; ++i) {
      const std::uint32_t task = l.tasks[i].value;
      state_[task] = state;
      for (std::uint32_t w = first_waiter_[task]; w != kNone; w = lanes_[w].next_waiter)
        runnable_.push_back(w);
      first_waiter_[task] = kNone;
    }
  }

  const Plan& plan_;
  std::vector<LaneState> lanes_;
  std::vector<State> state_;
  std::vector<std::uint32_t> first_waiter_;  // per task: the lanes that wait for it, as a list
  std::vector<std::uint32_t> runnable_;
};

}  // namespace

void verify_deadlock(const Plan& plan, Findings& findings) {
  if (ListedOrder(plan).runs()) return;
  LaneRun run(plan);
  run.run();
  const LaneNumbers numbers(plan);
  const auto lane_of = [&](TaskId id) { return numbers.of(plan.tasks[id.value]); };

  std::size_t lane = 0;
  while (lane < numbers.all && !run.stuck(lane)) ++lane;
  if (lane == numbers.all) return;

  std::vector<bool> passed(numbers.all);
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
