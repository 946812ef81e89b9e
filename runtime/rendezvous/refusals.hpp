// What a port prints about refused connections: a line for each of the first ones, then that there
// are more, and nothing after that. Otherwise a port scan would fill standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ringsched {

class Refusals {
 public:
  static constexpr unsigned kMostTold = 20;

  explicit Refusals(std::function<void(const std::string&)> tell);
  void add(std::string_view who, std::string_view why);

 private:
  const std::function<void(const std::string&)> tell_;
  unsigned count_ = 0;
};

}  // namespace ringsched
