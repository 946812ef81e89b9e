// The rules for every picture: nothing leaves the page, and no words overlap.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ringsched/viz/picture.hpp"

namespace ringsched {

template <class Kind>
std::vector<Kind> all(const Picture& p) {
  std::vector<Kind> found;
  for (const Shape& s : p.shapes)
    if (const auto* x = std::get_if<Kind>(&s)) found.push_back(*x);
  return found;
}

inline void expect_tidy(const Picture& p) {
  const auto inside = [&](double x, double y) {
    return x >= -0.01 && y >= -0.01 && x <= p.width + 0.01 && y <= p.height + 0.01;
  };
  for (const Box& b : all<Box>(p))
    EXPECT_TRUE(inside(b.x, b.y) && inside(b.x + b.width, b.y + b.height))
        << b.x << " " << b.y << " " << b.width << " " << b.height << " " << b.about;
  for (const Stroke& s : all<Stroke>(p))
    for (const Point& at : s.points) EXPECT_TRUE(inside(at.x, at.y)) << at.x << " " << at.y;
  for (const Area& a : all<Area>(p))
    for (const Point& at : a.corners) EXPECT_TRUE(inside(at.x, at.y)) << at.x << " " << at.y;
  std::vector<Box> words;
  for (const Label& l : all<Label>(p)) {
    const Box b = bounds(l);
    EXPECT_TRUE(inside(b.x, b.y) && inside(b.x + b.width, b.y + b.height)) << l.text;
    for (const Box& other : words)
      EXPECT_FALSE(overlap(b, other)) << "'" << l.text << "' lies on '" << other.about << "'";
    words.push_back(b);
    words.back().about = l.text;
  }
}

}  // namespace ringsched
