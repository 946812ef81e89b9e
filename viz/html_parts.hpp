// The files of viz/html/, which the build puts into the library.
#pragma once

#include <string>

namespace ringsched::html_parts {

extern const std::string page, style, script;

}  // namespace ringsched::html_parts
