// The flags for writing the timeline of a run and its pictures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "page_flags.hpp"
#include "pictures.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

inline constexpr std::uint32_t kChartWorkers = 16;  // more do not fit a screen

struct OutputKinds {
  FileKind gantt = FileKind::Svg, block_map = FileKind::Svg;
};

class OutputFlags {
 public:
  void add_to(CLI::App& command);
  bool any() const;
  const std::string& timeline() const { return timeline_; }
  // Call it before any work. Throws Error if a name has an unknown ending or is one of `inputs`.
  OutputKinds kinds(std::vector<std::string> inputs) const;
  // The last timeline is the run; the chart shows an earlier one beside it. Returns one line for
  // each file written.
  std::string write(OutputKinds, const Plan&, std::span<const Timeline>) const;

 private:
  std::string timeline_, gantt_, block_map_, trace_;
  PageFlags page_;
};

}  // namespace ringsched
