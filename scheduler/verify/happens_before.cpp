#include "happens_before.hpp"

#include <boost/range/iterator_range.hpp>
#include <utility>

#include "internal.hpp"
#include "ringsched/scheduler/exchange.hpp"

namespace ringsched {

HappensBefore::HappensBefore(const Plan& plan) : graph_(make_graph(plan)) {}

HappensBefore::Graph HappensBefore::make_graph(const Plan& plan) {
  group_ = groups_of(plan);
  const LaneNumbers lanes(plan);
  std::vector<TaskId> before(lanes.all);  // the task that each lane listed last
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const TaskId t{id};
    const Task& task = plan.tasks[id];
    if (group_[id] == id) edges.emplace_back(end(t), start(t));
    for (const TensorId input : task.inputs)
      if (const TaskId maker = maker_of(plan, input); maker.valid())
        edges.emplace_back(start(t), end(maker));
    // A transfer ends only once its other half has been posted.
    if (is_transfer(task.kind)) edges.emplace_back(end(t), start(task.peer));
    const TaskId earlier = std::exchange(before[lanes.of(task)], t);
    if (earlier.valid() && !task.with_previous) edges.emplace_back(start(t), end(earlier));
  }
  // A member has what it gets only once the members that give it are posted. It need not wait for
  // the others: a runtime may let it continue.
  for (const Exchange& e : plan.exchanges)
    for (const Share& s : shares_of(plan, e))
      edges.emplace_back(end({e.first.value + s.to}), start({e.first.value + s.from}));
  for (const ControlEdge& e : plan.controls) edges.emplace_back(start(e.after), end(e.before));
  return Graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
               static_cast<std::uint32_t>(2 * plan.tasks.size()));
}

bool HappensBefore::ends_before_start(TaskId first, TaskId second) {
  if (stamp_ == 0 || queue_.front() != start(second)) {
    reached_.resize(boost::num_vertices(graph_));
    queue_.assign(1, start(second));
    next_ = 0;
    reached_[start(second)] = ++stamp_;
  }
  for (; reached_[end(first)] != stamp_ && next_ < queue_.size(); ++next_, ++visits_)
    for (const std::uint32_t before :
         boost::make_iterator_range(boost::adjacent_vertices(queue_[next_], graph_)))
      if (std::exchange(reached_[before], stamp_) != stamp_) queue_.push_back(before);
  return reached_[end(first)] == stamp_;
}

}  // namespace ringsched
