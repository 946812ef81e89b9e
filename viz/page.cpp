#include "ringsched/viz/page.hpp"

#include <variant>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

Page page_for(std::string_view medium) {
  constexpr double kPrinted = 300.0 / 72;  // pixels per point at 300 per inch
  if (medium == "column") return {238, 7, 6, false, false, true, {}, kPrinted, 648};
  if (medium == "text") return {506, 7, 6, false, false, true, {}, kPrinted, 648};
  if (medium == "slide") return {960, 14, 10, true, true, true, {}, 2, 540};
  fail("--for is {}; use column, text or slide", medium);
}

Picture on_page(Picture p, const Page& page) {
  if (!page.fixed()) return p;
  const double k = page.unit();
  struct Scale {
    double k;
    void operator()(Box& b) const {
      for (double* x : {&b.x, &b.y, &b.width, &b.height, &b.outline_width}) *x *= k;
    }
    void operator()(Stroke& s) const {
      for (Point& at : s.points) at = {at.x * k, at.y * k};
      s.width *= k;
    }
    void operator()(Area& a) const {
      for (Point& at : a.corners) at = {at.x * k, at.y * k};
    }
    void operator()(Label& l) const {
      for (double* x : {&l.x, &l.y, &l.size}) *x *= k;
    }
  };
  for (Shape& s : p.shapes) std::visit(Scale{k}, s);
  p.width = page.width;
  p.height *= k;
  p.in_points = true;
  return p;
}

}  // namespace ringsched
