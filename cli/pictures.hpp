// Pictures of plans and timelines as files of any kind.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/picture.hpp"

namespace ringsched {

enum class FileKind : std::uint8_t { Svg, Pdf, Png, Html, Dot, Json };

// The kind by the ending of the name. Throws Error with the allowed endings.
FileKind file_kind(const std::string& path, const std::string& flag,
                   std::span<const FileKind> allowed);

inline constexpr FileKind kPictureKinds[] = {FileKind::Svg, FileKind::Pdf, FileKind::Png};
inline constexpr FileKind kPlanKinds[] = {FileKind::Svg, FileKind::Pdf, FileKind::Png,
                                          FileKind::Dot};
inline constexpr FileKind kGanttKinds[] = {FileKind::Svg, FileKind::Pdf, FileKind::Png,
                                           FileKind::Html};
inline constexpr FileKind kTraceKinds[] = {FileKind::Json};
inline constexpr FileKind kTimelineKinds[] = {FileKind::Svg, FileKind::Pdf, FileKind::Png,
                                              FileKind::Html, FileKind::Json};

inline constexpr double kPixels = 2;  // per point of a PNG by default

// Throws Error if `path` cannot be written, or if it would overwrite one of `others` (an input or
// another output). An empty name is ignored.
void check_output(const std::string& path, const std::string& flag,
                  std::span<const std::string> others = {});

// Written aside and renamed. `scale`: pixels per point, of a PNG.
void write_picture(const Picture&, FileKind, const std::string& path, double scale);
void write_text(const std::string& text, const std::string& path);

}  // namespace ringsched
