// Shows progress of long work on standard error, if that is a terminal; removes it at the end.
#pragma once

#include <functional>
#include <string_view>

namespace ringsched {

class Stage {
 public:
  // Shown only on a terminal, and only for `long_work`.
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
