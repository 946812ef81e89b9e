#include "happens_before.hpp"

#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <utility>

#include "verify_internal.hpp"

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
    if (leader_[id] == id) edges.emplace_back(start(t), end(t));
    for (const TensorId input : plan.tasks[id].inputs)
      if (const TaskId maker = input.valid() ? plan.producer(input) : TaskId{}; maker.valid())
        edges.emplace_back(end(maker), start(t));
    // A transfer ends only once its other half has been posted.
    if (is_transfer(plan.tasks[id].kind)) edges.emplace_back(start(plan.tasks[id].peer), end(t));
  }
  for (const ControlEdge& e : plan.controls) edges.emplace_back(end(e.before), start(e.after));
  for (std::size_t lane = 0; lane < lanes.count(); ++lane)
    for (std::uint32_t i = lanes.first[lane] + 1; i < lanes.first[lane + 1]; ++i)
      if (!plan.tasks[lanes.tasks[i].value].with_previous)
        edges.emplace_back(end(lanes.tasks[i - 1]), start(lanes.tasks[i]));
  return Graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
               static_cast<std::uint32_t>(2 * plan.tasks.size()));
}

bool HappensBefore::ends_before_start(TaskId first, TaskId second) const {
  std::vector<boost::default_color_type> colour(boost::num_vertices(graph_));
  const auto colours =
      boost::make_iterator_property_map(colour.begin(), boost::get(boost::vertex_index, graph_));
  boost::breadth_first_search(graph_, end(first), boost::color_map(colours));
  return colour[start(second)] != boost::white_color;
}

bool HappensBefore::has_cycle() const {
  std::vector<std::uint32_t> order;
  order.reserve(boost::num_vertices(graph_));
  try {
    boost::topological_sort(graph_, std::back_inserter(order));
    return false;
  } catch (const boost::not_a_dag&) {
    return true;
  }
}

}  // namespace ringsched
