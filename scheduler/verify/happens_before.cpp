#include "happens_before.hpp"

#include <boost/range/iterator_range.hpp>
#include <utility>

#include "internal.hpp"

namespace ringsched {

HappensBefore::HappensBefore(const Plan& plan) : graph_(make_graph(plan)) {}

HappensBefore::Graph HappensBefore::make_graph(const Plan& plan) {
  const Lanes lanes(plan);
  leader_.resize(plan.tasks.size());
  for (std::size_t lane = 0; lane < lanes.count(); ++lane)
    for (std::uint32_t i = lanes.first[lane]; i < lanes.first[lane + 1]; ++i) {
      const std::uint32_t t = lanes.tasks[i].value;
      leader_[t] = plan.tasks[t].with_previous ? leader_[lanes.tasks[i - 1].value] : t;
    }

  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const TaskId t{id};
    if (leader_[id] == id) edges.emplace_back(end(t), start(t));
    for (const TensorId input : plan.tasks[id].inputs)
      if (const TaskId maker = input.valid() ? plan.producer(input) : TaskId{}; maker.valid())
        edges.emplace_back(start(t), end(maker));
    // A transfer ends only once its other half has been posted.
    if (is_transfer(plan.tasks[id].kind)) edges.emplace_back(end(t), start(plan.tasks[id].peer));
  }
  for (const ControlEdge& e : plan.controls) edges.emplace_back(start(e.after), end(e.before));
  for (std::size_t lane = 0; lane < lanes.count(); ++lane)
    for (std::uint32_t i = lanes.first[lane] + 1; i < lanes.first[lane + 1]; ++i)
      if (!plan.tasks[lanes.tasks[i].value].with_previous)
        edges.emplace_back(start(lanes.tasks[i]), end(lanes.tasks[i - 1]));
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
