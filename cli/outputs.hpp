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
class Option;
}  // namespace CLI

namespace ringsched {

inline constexpr std::uint32_t kChartWorkers = 16;  // more do not fit a screen

struct OutputKinds {
  FileKind gantt = FileKind::Svg, block_map = FileKind::Svg;
};

// The flag --critical-path.
CLI::Option* add_path_look(CLI::App& command, std::string& value);

class OutputFlags {
 public:
  void add_to(CLI::App& command);
  void add_path_to(CLI::App& command);  // for runs that have a critical path
  bool any() const;
  const std::string& timeline() const { return timeline_; }
  // Call it before any work. Throws Error if a name has an unknown ending or is one of `inputs`.
  OutputKinds kinds(std::vector<std::string> inputs) const;
  // Call it before the plan is simulated or run. Throws Error if a picture of it cannot be drawn.
  void require_drawable(const Plan&) const;
  // The last timeline is the run; the chart shows an earlier one beside it. Returns one line for
  // each file written.
  std::string write(OutputKinds, const Plan&, std::span<const Timeline>) const;

 private:
  std::string timeline_, gantt_, block_map_, trace_, path_;
  PageFlags page_;
};

}  // namespace ringsched
