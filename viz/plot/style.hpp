// How a schedule's line looks, the same in every chart: a colour that colour-blind people can
// distinguish from the others, and a marker that also works in grey.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ringsched/viz/picture.hpp"

namespace ringsched {

struct LineStyle {
  Colour colour;
  std::size_t marker = 0;
  bool dashed = false;
};

// One for each name. A schedule has its own; with other parameters once more, it has another one.
std::vector<LineStyle> line_styles(std::span<const std::string> names);

// One for each of `n` groups, such as sources. Up to 24 differ, and two of one colour have shapes
// that differ clearly.
std::vector<LineStyle> group_styles(std::size_t n);

// Names of schedules without a parameter that most leave as it is, if no other would then have the
// same name: "usp:ring=zigzag" for "usp:ring=zigzag:sends=all".
std::vector<std::string> without_usual(const std::vector<std::string>& names);

void draw_marker(Point, double radius, const LineStyle&, bool hollow, const std::string& about,
                 std::vector<Shape>& out);

}  // namespace ringsched
