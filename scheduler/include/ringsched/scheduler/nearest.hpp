// "Did you mean ...?": the known names closest to what was typed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ringsched {

// One line for an Error: what was given, the nearest name if one is near, and all there are.
std::string unknown_name(std::string_view what, std::string_view given,
                         std::span<const std::string_view> known);

}  // namespace ringsched
