// How a schedule's line looks, the same in every chart: a colour that people of all kinds of sight
// tell from the others, and a marker that tells them apart in grey as well.
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

// One for each name. A schedule has its own colour, unless one before it has the same.
std::vector<LineStyle> line_styles(std::span<const std::string> names);

void draw_marker(Point, double radius, const LineStyle&, bool hollow, const std::string& about,
                 std::vector<Shape>& out);

}  // namespace ringsched
