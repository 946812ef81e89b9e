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

void draw_marker(Point, double radius, const LineStyle&, bool hollow, const std::string& about,
                 std::vector<Shape>& out);

}  // namespace ringsched
