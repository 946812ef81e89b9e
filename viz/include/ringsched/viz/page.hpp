// What a picture is for, a paper or a slide: how wide it is, how large its words, and what
// surrounds it.
#pragma once

#include <string>
#include <string_view>

#include "ringsched/viz/picture.hpp"

namespace ringsched {

struct Page {
  double width = 0;       // points; 0: each picture has a width of its own
  double text = 10;       // points, of most words; all else is in proportion
  double least_text = 0;  // points; smaller words are set larger or left out
  bool heading = true, legend = true;
  bool key = true;         // what a chart of parts and groups needs in any case
  std::string title = {};  // replaces the picture's own heading
  double pixels = 2;       // per point of a PNG
  double height = 0;       // points; where rows may be lower, they are, rather than to exceed it

  bool fixed() const { return width > 0; }
  // Pictures are laid out with words of size 10, in these units; `scaled` makes points of them.
  double unit() const { return text / 10; }
  double units() const { return width / unit(); }
  double least() const { return least_text / unit(); }
};

// "column" or "text" of a paper with two columns, or "slide". Throws Error for other names.
Page page_for(std::string_view medium);

// The picture as it is on the page: `units()` wide becomes `width` points.
Picture on_page(Picture, const Page&);

}  // namespace ringsched
