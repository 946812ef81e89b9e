// The colours of all pictures, so that a worker looks the same in each of them.
#pragma once

#include <cstdint>
#include <string>

namespace ringsched {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(Colour, Colour) = default;
};

// Of the queries at home on this worker. Up to eight workers have colours that people of all kinds
// of sight tell apart; more run through a scale from dark to light, so that neighbours look alike
// and order can be seen.
Colour worker_colour(std::uint32_t worker, std::uint32_t workers);

Colour mixed(Colour a, Colour b, double share_of_b);
Colour text_on(Colour background);  // black or white
std::string hex(Colour);            // "#0072b2"

namespace ink {
inline constexpr Colour black = {0x1a, 0x1a, 0x1a};
inline constexpr Colour grey = {0x6b, 0x6b, 0x6b};
inline constexpr Colour rule = {0xd8, 0xd8, 0xd8};  // grid lines
inline constexpr Colour white = {0xff, 0xff, 0xff};
inline constexpr Colour own = {0x2f, 0x7e, 0xbd};      // where workers are not told apart:
inline constexpr Colour helping = {0xe8, 0x9f, 0x1c};  // whose queries they attend
inline constexpr Colour overhead = {0x4d, 0x4d, 0x4d};
inline constexpr Colour waiting = {0xec, 0xec, 0xec};
inline constexpr Colour keys = {0xff, 0xe1, 0x8c};     // keys and values on their way,
inline constexpr Colour queries = {0xe8, 0xa8, 0x1c};  // queries,
inline constexpr Colour results = {0xa0, 0x5a, 0x0a};  // and results: one hue, darker each
}  // namespace ink

}  // namespace ringsched
