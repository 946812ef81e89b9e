// All that a plan orders, as a graph for Boost: the start and the end of each task are vertices,
// and an edge leads from what must come first to what then may. It costs far more than the plan
// itself, so the verifier asks it only where a worker's own lanes leave a doubt, and tests use it
// as a second opinion.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class HappensBefore {
 public:
  explicit HappensBefore(const Plan&);  // of sound structure

  bool ends_before_start(TaskId first, TaskId second) const;
  bool has_cycle() const;

 private:
  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                         boost::no_property, std::uint32_t, std::uint32_t>;

  // The members of a group start together and end together: they share the vertices of the first.
  std::uint32_t start(TaskId t) const { return 2 * leader_[t.value]; }
  std::uint32_t end(TaskId t) const { return start(t) + 1; }
  Graph make_graph(const Plan&);

  std::vector<std::uint32_t> leader_;
  Graph graph_;
};

}  // namespace ringsched
