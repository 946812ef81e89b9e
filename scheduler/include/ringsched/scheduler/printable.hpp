// Makes text from a file or a command line safe to show on a line for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringsched {

// At most `most` bytes of it, with "..." if there are more. Characters that would break or reorder
// the line (control characters, line separators, changes of direction) become '?'.
std::string printable(std::string_view text, std::size_t most = 40);

// The room for the name of a schedule with its parameters.
inline constexpr std::size_t kMostOfName = 120;

}  // namespace ringsched
