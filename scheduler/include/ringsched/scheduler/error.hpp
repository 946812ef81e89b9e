// The one exception for bad input: a message that says what was given, what is allowed and where.
// The command line prints it on one line and exits with code 2.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace ringsched {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace ringsched
