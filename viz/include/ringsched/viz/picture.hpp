// A drawing as plain data: boxes, lines, areas and words, back to front, in points from the top
// left. Every picture is first made as one of these, so that one drawing code serves SVG, PDF and
// PNG, and so that tests can inspect it (does any word leave the page?).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ringsched/viz/colour.hpp"

namespace ringsched {

struct Point {
  double x = 0, y = 0;
};

enum class Hatch : std::uint8_t { None, Diagonal, Dots };

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  std::optional<Colour> fill;
  Hatch hatch = Hatch::None;      // over the fill: white lines, or grey dots
  std::optional<Colour> outline;  // drawn inside the box
  double outline_width = 1;
  std::string about;  // text for a pointer resting on it, in SVG
};

struct Stroke {
  std::vector<Point> points;
  Colour colour;
  double width = 1;
  bool dashed = false;
  bool arrow = false;  // at its end
};

struct Area {
  std::vector<Point> corners;
  Colour fill;
  double opacity = 1;
  std::string about = {};  // as of a box
};

enum class Anchor : std::uint8_t { Start, Middle, End };

// Words on one line, in Helvetica or its replacement.
struct Label {
  double x = 0, y = 0;  // of the anchor, on the baseline
  double size = 11;
  Colour colour;
  Anchor anchor = Anchor::Start;
  bool bold = false;
  std::string text;
};

using Shape = std::variant<Box, Stroke, Area, Label>;

struct Picture {
  double width = 0, height = 0;
  std::string title;       // for readers who cannot see it
  bool in_points = false;  // an SVG says so, for print; otherwise a point is a pixel of a screen
  std::vector<Shape> shapes;
};

// The same everywhere, whatever fonts there are.
double text_width(std::string_view text, double size, bool bold = false);
// Cut in the middle if there is no room.
std::string shortened(std::string text, double size, double room);
// On as many lines as it needs. A word without room has a line of its own.
std::vector<std::string> wrapped(std::string_view text, double size, double room,
                                 bool bold = false);
Box bounds(const Label&);
bool overlap(const Box&, const Box&);

std::string svg(const Picture&);
// Throw Error if Cairo was not found at build time. `scale`: pixels per point; the PNG records it,
// so that it prints at the size of the picture.
std::string pdf(const Picture&);
std::string png(const Picture&, double scale = 2);
// A PNG that records how many pixels it has per point.
std::string with_density(const std::string& png, double scale);

}  // namespace ringsched
