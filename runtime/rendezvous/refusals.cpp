#include "rendezvous/refusals.hpp"

#include <fmt/format.h>

#include <utility>

namespace ringsched {

Refusals::Refusals(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

void Refusals::add(std::string_view who, std::string_view why) {
  if (++count_ <= kMostTold)
    tell_(fmt::format("refused {}: {}", who, why));
  else if (count_ == kMostTold + 1)
    tell_("more connections refused; further messages suppressed");
}

}  // namespace ringsched
