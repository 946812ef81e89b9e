#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "terminal.hpp"

namespace ringsched {

using Clock = std::chrono::steady_clock;

ProgressBar::ProgressBar(std::string what, std::size_t all)
    : what_(std::move(what)),
      all_(all),
      shown_(isatty(STDERR_FILENO) != 0 && std::getenv("TERM") != std::string_view("dumb")),
      start_(Clock::now()),
      drawn_(start_) {}

ProgressBar::~ProgressBar() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void ProgressBar::advance() {
  const std::lock_guard lock(guard_);
  ++done_;
  const auto now = Clock::now();
  if (!shown_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  draw();
}

void ProgressBar::draw() {
  constexpr std::size_t width = 30;
  const std::size_t full = width * done_ / all_;
  std::string bar;
  for (std::size_t i = 0; i < width; ++i) bar += i < full ? "━" : "─";
  const double passed = std::chrono::duration<double>(drawn_ - start_).count();
  const double left = passed * static_cast<double>(all_ - done_) / static_cast<double>(done_);
  fmt::print(stderr, "\r\033[K{} {} {} of {}, {:.0f} s to go", what_, for_locale(bar), done_, all_,
             left);
  std::fflush(stderr);
}

}  // namespace ringsched
