// Text from a file or a command line, made fit to stand in a line for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringsched {

// At most `most` bytes of it, with "..." if there are more. What would break or turn the line
// (control characters, line separators, changes of direction) becomes '?'.
std::string printable(std::string_view text, std::size_t most = 40);

// What there is room for of the name of a schedule with its parameters.
inline constexpr std::size_t kMostOfName = 120;

}  // namespace ringsched
