// Deadlock freedom, by running the plan without time. A group of transfers is posted when the lane
// is free and its data are there, and is complete when every partner is posted too. So sends wait
// for their receives, which is the least that a transport promises, and members of an exchange wait
// for all others. Whatever order this run takes, the same tasks end, because each step only enables
// others. If some never do, each stuck lane waits for one task of a stuck lane. So following the
// waits from any of them runs into a cycle, which is the counterexample.
//
// Most plans list their tasks in an order in which they can run. Two passes over the list prove
// that (ListedOrder), at a fifth of the cost of running lane after lane.
#include <algorithm>

#include "internal.hpp"

namespace ringsched {

namespace {

// What a worker issues one after the other: the tasks of a lane, or of all lanes but compute.
class Queues {
 public:
  Queues(const Plan& plan, bool one_for_all_lanes) : lanes_(plan), one_(one_for_all_lanes) {}

  bool one_for_all_lanes() const { return one_; }
  std::uint32_t of(const Task& t) const {
    return one_ ? 2u * t.worker_index + (t.lane == Lane::Compute ? 0 : 1) : lanes_.of(t);
  }
  std::uint32_t count() const { return one_ ? lanes_.all / lanes_.per_worker * 2 : lanes_.all; }

 private:
  LaneNumbers lanes_;
  bool one_;
};

// Tries one order of events: each group is posted when its last member is listed, and is complete
// once the groups of all partners are posted. Deadlock is impossible if everything a task waits for
// is complete before the task is listed. The converse does not hold: then LaneRun decides.
class ListedOrder {
 public:
  ListedOrder(const Plan& plan, const Queues& queues)
      : plan_(plan), queues_(queues), posted_(groups_of(plan)), complete_(plan.tasks.size()) {}

  bool runs() {
    auto edge = plan_.controls.begin();
    std::vector<std::uint32_t> before(queues_.count(), kNone);  // the group that each listed last
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      const std::uint32_t group = posted_[id];
      std::uint32_t& earlier = before[queues_.of(task)];
      if (earlier != group && earlier != kNone && complete_[earlier] >= id) return false;
      earlier = group;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(plan_, input);
            maker.valid() && !complete_before(maker, id))
          return false;
      for (; edge != plan_.controls.end() && edge->after.value == id; ++edge)
        if (!complete_before(edge->before, id)) return false;
      // Nothing comes between the members of an exchange: for what follows, all are posted.
      const std::uint32_t partner = is_transfer(task.kind) ? posted_[task.peer.value] : group;
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
  const Queues& queues_;
  const TaskColumn<std::uint32_t>
      posted_;                          // by task: its group, which is posted when that is listed
  TaskColumn<std::uint32_t> complete_;  // by group: the task whose listing completes it, so far
};

class LaneRun {
 public:
  LaneRun(const Plan& plan, const Queues& queues)
      : plan_(plan),
        lanes_(queues.count()),
        state_(plan.tasks.size()),
        first_waiter_(plan.tasks.size(), kNone) {
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
      lanes_[queues.of(plan.tasks[id])].tasks.push_back({id});
    if (queues.one_for_all_lanes()) keep_groups_together();
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

  // A group is issued when its last member is.
  void keep_groups_together() {
    const TaskColumn<std::uint32_t> groups = groups_of(plan_);
    for (LaneState& l : lanes_)
      std::ranges::stable_sort(l.tasks, {}, [&](TaskId t) { return groups[t.value]; });
  }

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

// Tasks that wait for each other in a circle, and the message about them.
struct Circle {
  std::vector<TaskId> tasks;
  std::string text;
};

Circle find_circle(const Plan& plan, const Queues& queues) {
  Circle found;
  if (ListedOrder(plan, queues).runs()) return found;
  LaneRun run(plan, queues);
  run.run();
  const auto queue_of = [&](TaskId id) { return queues.of(plan.tasks[id.value]); };

  std::size_t queue = 0;
  while (queue < queues.count() && !run.stuck(queue)) ++queue;
  if (queue == queues.count()) return found;

  std::vector<bool> passed(queues.count());
  while (!passed[queue]) {
    passed[queue] = true;
    queue = queue_of(run.awaited(queue));
  }
  const std::size_t start = queue;
  do {
    const TaskId waiting = run.head(queue), awaited = run.awaited(queue);
    queue = queue_of(awaited);
    found.text += fmt::format("{}{} waits for {}", found.tasks.empty() ? "" : "; ",
                              name_of(plan, waiting), name_of(plan, awaited));
    if (const TaskId behind = run.head(queue); behind != awaited)
      found.text += fmt::format(", which comes only after task {}", behind.value);
    found.tasks.push_back(waiting);
  } while (queue != start);
  return found;
}

// A pass over the tasks in order meets a whole group before anything that needs it.
void check_order_of_groups(const Plan& plan, Findings& findings) {
  const TaskColumn<std::uint32_t> last = groups_of(plan);
  const auto check = [&](TaskId needed, TaskId by) {
    if (last[needed.value] <= last[by.value]) return;
    findings.add(Rule::Deadlock, {by, {last[needed.value]}},
                 "{} needs {}, which is posted in one group with {}, later in the plan",
                 name_of(plan, by), name_of(plan, needed), name_of(plan, {last[needed.value]}));
  };
  for (std::uint32_t id = 0; id < plan.tasks.size() && !findings.full(); ++id)
    for (const TensorId input : plan.tasks[id].inputs)
      if (const TaskId maker = maker_of(plan, input); maker.valid()) check(maker, {id});
  for (const ControlEdge& e : plan.controls) check(e.before, e.after);
}

}  // namespace

void verify_deadlock(const Plan& plan, Findings& findings) {
  const Queues queues(plan, false);
  Circle circle = find_circle(plan, queues);
  if (!circle.tasks.empty())
    findings.add(Rule::Deadlock, std::move(circle.tasks), "{}", circle.text);
  else if (!ListedOrder(plan, queues).runs())
    check_order_of_groups(plan, findings);
}

std::string circle_in_one_queue(const Plan& plan) {
  return find_circle(plan, Queues(plan, true)).text;
}

}  // namespace ringsched
