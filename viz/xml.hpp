// Text for inside an element or attribute of SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace ringsched {

std::string escaped_xml(std::string_view text);

}  // namespace ringsched
