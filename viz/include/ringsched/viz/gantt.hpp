// Timelines as Gantt charts: what each worker did when, with a row for each.
#pragma once

#include <cstdint>
#include <optional>

#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

struct GanttOptions {
  double width = 1100;                       // points; the height follows
  bool critical_path = true;                 // outlined, with arrows along its messages
  std::optional<std::uint32_t> worker = {};  // only this one, with room for words on its messages
  Page page = {};                            // where it has a width, that one counts
};

// With more workers or tasks than can be distinguished, bands of workers replace rows, and shares
// of time replace bars. Throws Error for a timeline without tasks.
Picture gantt(const Timeline&, const GanttOptions& = {});

// Both on one time axis, worker by worker, with the largest differences marked: predicted and
// measured, or two schedules. Throws Error if compare() does.
Picture gantt(const Timeline& first, const Timeline& second, const GanttOptions& = {});

}  // namespace ringsched
