#include "stage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace ringsched {

Stage::Stage(std::string_view what, bool long_work) : shown_(long_work && isatty(STDERR_FILENO)) {
  if (!shown_) return;
  fmt::print(stderr, "{} ...", what);
  std::fflush(stderr);
}

Stage::~Stage() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);  // back to the start of the line, and clear it
  std::fflush(stderr);
}

}  // namespace ringsched
