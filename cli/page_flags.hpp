// The flags for what a picture is for: a paper or a slide, with or without a title and a legend.
#pragma once

#include <string>

#include "ringsched/viz/page.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

class PageFlags {
 public:
  void add_to(CLI::App& command, const char* group = "Pictures");
  // Throws Error for an unknown medium, and for flags that contradict.
  Page page() const;
  // Throws Error if any of the flags was given but there is no picture for them.
  void refuse(const std::string& why) const;

 private:
  std::string medium_, title_;
  bool no_title_ = false, legend_ = false, no_legend_ = false;
};

}  // namespace ringsched
