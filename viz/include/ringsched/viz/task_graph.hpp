// The task graph of a plan, laid out by Graphviz: a cluster for each worker, a rank for each step,
// and only the edges that others do not imply.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

struct GraphPart {
  std::optional<WorkerId> worker;  // none: all workers
  Step first_step = 0;
  Step last_step = std::numeric_limits<Step>::max();
};

enum class GraphWords : std::uint8_t {
  Full,
  Few,    // narrow boxes: "get kv3", "merge"
  Least,  // "kv3", "+"; without arrows that say only in which order a worker does things
};

// As a dot file. Throws Error, with advice, for more tasks than anyone can read. A page decides
// what is below: a title, a legend.
std::string task_graph_dot(const Plan&, const GraphPart& = {}, const Page& = {},
                           GraphWords = GraphWords::Full);

enum class GraphFormat : std::uint8_t { Svg, Pdf, Png };
// The picture of a dot file, as wide as the page says. Throws Error if that makes words too small
// to read, or if Graphviz was not found at build time.
std::string laid_out(const std::string& dot, GraphFormat, const Page& = {});
// The task graph with as many words as can be read on the page. Throws Error as both do.
std::string task_graph(const Plan&, const GraphPart&, GraphFormat, const Page&);

}  // namespace ringsched
