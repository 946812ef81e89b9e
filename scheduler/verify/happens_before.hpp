// Everything that a plan orders, as a graph for Boost: the start and the end of each task are
// vertices, and an edge leads from an event to what must come before it. It costs far more than the
// plan itself, so the verifier uses it only if a worker's own lanes leave a doubt.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class HappensBefore {
 public:
  explicit HappensBefore(const Plan&);  // of sound structure

  // Searches back from `second` until it meets `first`; asked about the same `second` again, it
  // continues from there.
  bool ends_before_start(TaskId first, TaskId second);
  std::uint64_t visits() const { return visits_; }  // what all searches have cost

 private:
  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                         boost::no_property, std::uint32_t, std::uint32_t>;

  // The members of a group start together and end together: they share the vertices of the last.
  std::uint32_t start(TaskId t) const { return 2 * group_[t.value]; }
  std::uint32_t end(TaskId t) const { return start(t) + 1; }
  Graph make_graph(const Plan&);

  TaskColumn<std::uint32_t> group_;  // groups_of(plan)
  Graph graph_;
  std::vector<std::uint32_t> reached_;  // by vertex: the last search that came there
  std::vector<std::uint32_t> queue_;    // what the last search has met, and
  std::size_t next_ = 0;                // how much of that it has expanded
  std::uint32_t stamp_ = 0;             // of the last search
  std::uint64_t visits_ = 0;
};

}  // namespace ringsched
