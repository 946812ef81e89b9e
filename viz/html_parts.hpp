// The files of viz/html/, as the build put them into the library.
#pragma once

#include <string>

namespace ringsched::html_parts {

extern const std::string page, style, script;

}  // namespace ringsched::html_parts
