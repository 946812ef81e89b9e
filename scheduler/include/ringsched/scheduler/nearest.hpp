// "Did you mean ...?": the known name closest to what was typed.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ringsched {

// "; did you mean NAME?", or nothing if no known name is near.
std::string did_you_mean(std::string_view given, std::span<const std::string_view> known);

// One line for an Error: what was given, the nearest name if one is near, and all known names.
std::string unknown_name(std::string_view what, std::string_view given,
                         std::span<const std::string_view> known);

// Throws Error unless `given` is one of the names that `flag` takes.
void check_choice(std::string_view flag, std::string_view given,
                  std::initializer_list<std::string_view> names);

// "a", "a or b", "a, b or c".
std::string any_of(std::span<const std::string_view> names);

}  // namespace ringsched
