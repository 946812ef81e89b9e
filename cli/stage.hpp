// Says on a terminal's standard error what long work is being done, and takes it back when it is
// done.
#pragma once

#include <functional>
#include <string_view>

namespace ringsched {

class Stage {
 public:
  // Shown only where somebody watches, and only if the work is `long_work`.
  Stage(std::string_view what, bool long_work);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  bool shown_;
};

// The same for work that a library announces: "" ends a stage.
std::function<void(std::string_view)> stages();

}  // namespace ringsched
