// A progress bar on standard error, if that is a terminal, for work of known length.
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

  void advance();  // one more unit of work is done; any thread may call this

 private:
  void draw();

  std::string what_;
  std::size_t all_, done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point start_, drawn_;
  std::mutex guard_;
};

}  // namespace ringsched
