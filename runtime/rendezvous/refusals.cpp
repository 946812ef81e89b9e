#include "rendezvous/refusals.hpp"

#include <fmt/format.h>

#include <utility>

namespace ringsched {

Refusals::Refusals(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

void Refusals::add(std::string_view who, std::string_view why) {
  if (++count_ <= kMostTold)
    tell_(fmt::format("refused a connection from {}: {}", who, why));
  else if (count_ == kMostTold + 1)
    tell_("refused more connections; further messages are suppressed");
}

}  // namespace ringsched
