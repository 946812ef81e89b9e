// The libraries that write pictures other than SVG and HTML.
#pragma once

#include <string>

namespace ringsched {

// "1.16.0"; empty: ringsched was built without it.
std::string cairo_version();
std::string graphviz_version();

// Whether Cairo finds Liberation Sans, or a font with letters of the same widths.
bool cairo_has_font();

}  // namespace ringsched
