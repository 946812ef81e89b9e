#include "style.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

namespace {

// After M. Okabe and K. Ito, "Color Universal Design" (2008); grey replaces yellow, which is hard
// to see on white paper, and Paul Tol's wine is added, so that each schedule has one.
constexpr std::array<Colour, 9> kColours = {{{0x00, 0x72, 0xb2},
                                             {0xd5, 0x5e, 0x00},
                                             {0x00, 0x9e, 0x73},
                                             {0xcc, 0x79, 0xa7},
                                             {0x1a, 0x1a, 0x1a},
                                             {0xe6, 0x9f, 0x00},
                                             {0x56, 0xb4, 0xe9},
                                             {0x8c, 0x8c, 0x8c},
                                             {0x88, 0x22, 0x55}}};

constexpr std::size_t kCross = 1000;  // a marker; the others are below

// Its place among all schedules: "usp:ulysses=8" has the place of usp.
std::size_t place_of(const std::string& name) {
  const std::string base = name.substr(0, name.find(':'));
  std::size_t place = 0;
  for (const auto list : {schedules(), decode_schedules()}) {
    std::size_t i = 0;
    for (const Schedule& s : list) {
      if (s.name == base) return i;
      ++i;
    }
    place = std::max(place, i);
  }
  return place;
}

// The corners of a marker around the middle.
std::vector<Point> outline(std::size_t marker, Point at, double r) {
  const auto polygon = [&](int corners, double turn, double size) {
    std::vector<Point> out;
    for (int i = 0; i < corners; ++i) {
      const double angle = turn + 2 * M_PI * i / corners;
      out.push_back({at.x + size * std::sin(angle), at.y - size * std::cos(angle)});
    }
    return out;
  };
  if (marker == kCross) {
    const double in = 0.38 * r, far = 1.25 * r;
    std::vector<Point> out;
    for (const auto& [x, y] : {Point{in, far}, Point{in, in}, Point{far, in}, Point{far, -in},
                               Point{in, -in}, Point{in, -far}, Point{-in, -far}, Point{-in, -in},
                               Point{-far, -in}, Point{-far, in}, Point{-in, in}, Point{-in, far}})
      out.push_back({at.x + x, at.y + y});
    return out;
  }
  switch (marker % kColours.size()) {
    case 0:
      return polygon(16, 0, r);
    case 1:
      return polygon(4, M_PI / 4, 1.25 * r);
    case 2:
      return polygon(3, 0, 1.35 * r);
    case 3:
      return polygon(4, 0, 1.35 * r);
    case 4:
      return polygon(3, M_PI, 1.35 * r);
    case 5:
      return polygon(5, 0, 1.15 * r);
    case 6:
      return polygon(3, M_PI / 2, 1.35 * r);
    case 7:
      return polygon(6, 0, 1.1 * r);
    default:
      return polygon(3, -M_PI / 2, 1.35 * r);
  }
}

}  // namespace

std::vector<LineStyle> line_styles(std::span<const std::string> names) {
  std::vector<std::optional<LineStyle>> found(names.size());
  std::vector<std::size_t> taken(kColours.size());
  // First each schedule gets its own, then others of the same schedule get what is left.
  for (const bool own : {true, false})
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::size_t at = place_of(names[i]) % kColours.size();
      if (found[i] || (own && taken[at] > 0)) continue;
      const std::size_t fewest = *std::min_element(taken.begin(), taken.end());
      while (!own && taken[at] != fewest) at = (at + 1) % kColours.size();
      found[i] = {kColours[at], at + 4 * taken[at], taken[at] % 2 == 1};
      ++taken[at];
    }
  std::vector<LineStyle> out;
  for (const std::optional<LineStyle>& style : found) out.push_back(*style);
  return out;
}

std::vector<LineStyle> group_styles(std::size_t n) {
  constexpr std::size_t kCircle = 0, kSquare = 1, kUp = 2, kDown = 4;
  constexpr std::size_t kShapes[3][3] = {
      {kCircle, kSquare, kUp}, {kCross, kDown, kCircle}, {kUp, kCross, kSquare}};
  constexpr Colour kPale = {0x8c, 0x8c, 0x8c};  // as bands and intervals are
  std::vector<Colour> colours(kColours.begin(), kColours.end());
  std::erase(colours, kPale);
  std::vector<LineStyle> out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t colour = i % colours.size(), round = i / colours.size();
    out.push_back({colours[colour], kShapes[round % 3][colour % 3]});
  }
  return out;
}

std::vector<std::string> without_usual(const std::vector<std::string>& names) {
  static constexpr std::string_view kUsual = ":sends=all";
  const auto shorter = [](std::string name) {
    const std::size_t at = name.find(kUsual), end = at + kUsual.size();
    if (at != name.npos && (end == name.size() || name[end] == ':')) name.erase(at, kUsual.size());
    return name;
  };
  std::map<std::string, std::set<std::string>> same;  // by what is left, all whole names
  for (const std::string& name : names) same[shorter(name)].insert(name);
  std::vector<std::string> out;
  for (const std::string& name : names)
    out.push_back(same[shorter(name)].size() == 1 ? shorter(name) : name);
  return out;
}

void draw_marker(Point at, double r, const LineStyle& style, bool hollow, const std::string& about,
                 std::vector<Shape>& out) {
  out.emplace_back(Area{outline(style.marker, at, r), style.colour, 1, about});
  if (hollow) out.emplace_back(Area{outline(style.marker, at, r * 0.55), ink::white});
}

}  // namespace ringsched
