// What a port says of those it turned away: each of the first ones, then that there are more, and
// no more than that, or whoever tries all ports of a machine would fill standard error.
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
