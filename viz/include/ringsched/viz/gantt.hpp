// Timelines as Gantt charts: who did what when, one row for each worker.
#pragma once

#include <cstdint>
#include <optional>

#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

struct GanttOptions {
  double width = 1100;                       // points; the height follows
  bool critical_path = true;                 // outlined, with arrows along its messages
  std::optional<std::uint32_t> worker = {};  // this one alone, with room for words on its messages
  Page page = {};                            // where it has a width, that one counts
};

// Where there are more workers or tasks than can be told apart, bands of workers take the place of
// rows, and shares of time that of bars. Throws Error for a timeline without tasks.
Picture gantt(const Timeline&, const GanttOptions& = {});

// Both on one time axis, worker by worker, with what differs most called out: predicted against
// measured, or one schedule against another. Throws Error where compare() does.
Picture gantt(const Timeline& first, const Timeline& second, const GanttOptions& = {});

}  // namespace ringsched
