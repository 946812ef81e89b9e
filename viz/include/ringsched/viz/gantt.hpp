// Timelines as Gantt charts: what each worker did when, with a row for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

enum class PathLook : std::uint8_t {
  Fade,     // all else is pale
  Outline,  // its bars have black outlines
  None,
};

// "fade", "outline" or "none". Throws Error for another, naming the flag.
PathLook parse_path_look(std::string_view flag, std::string_view);

struct GanttOptions {
  double width = 1100;  // points; the height follows
  // Of the critical path. Where it is asked for, a path that cannot be drawn is an error. Else it
  // fades the rest, unless there is none to follow or several workers are busy all the time.
  std::optional<PathLook> path = {};
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
