#include "stage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

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

std::function<void(std::string_view)> stages() {
  return [stage = std::shared_ptr<Stage>()](std::string_view what) mutable {
    stage.reset();
    if (!what.empty()) stage = std::make_shared<Stage>(what, true);
  };
}

}  // namespace ringsched
