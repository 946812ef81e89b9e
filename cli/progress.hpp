// A bar on a terminal's standard error, for work of known length; gone when the work is done.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace ringsched {

class ProgressBar {
 public:
  ProgressBar(std::string what, std::size_t all);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance();  // one more is done; from any thread

 private:
  void draw();

  std::string what_;
  std::size_t all_, done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point start_, drawn_;
  std::mutex guard_;
};

}  // namespace ringsched
