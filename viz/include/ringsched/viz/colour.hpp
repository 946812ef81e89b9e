// The colours of all pictures, so that a worker looks the same in each of them.
#pragma once

#include <cstdint>
#include <string>

namespace ringsched {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(Colour, Colour) = default;
};

// Of the queries that this worker owns. Up to eight workers have colours that colour-blind people
// can distinguish. More run through a scale from purple to yellow, so that order is visible, and
// every second one is lighter, so that neighbours differ.
Colour worker_colour(std::uint32_t worker, std::uint32_t workers);

Colour mixed(Colour a, Colour b, double share_of_b);
Colour text_on(Colour background);  // black or white
std::string hex(Colour);            // "#0072b2"

namespace ink {
inline constexpr Colour black = {0x1a, 0x1a, 0x1a};
inline constexpr Colour grey = {0x6b, 0x6b, 0x6b};
inline constexpr Colour rule = {0xd8, 0xd8, 0xd8};  // grid lines
inline constexpr Colour white = {0xff, 0xff, 0xff};
// In grey, each of these four is clearly lighter than the one before.
inline constexpr Colour overhead = {0x33, 0x33, 0x33};
inline constexpr Colour own = {0x3d, 0x8f, 0xd1};      // where workers are not told apart:
inline constexpr Colour helping = {0xe8, 0x9f, 0x1c};  // whose queries they attend
inline constexpr Colour waiting = {0xec, 0xec, 0xec};
// Transfers are grey, because hues mean workers, with a contrast of at least 3:1 on light and dark
// paper.
inline constexpr Colour keys = {0x94, 0x94, 0x94};     // keys and values,
inline constexpr Colour queries = {0x93, 0x93, 0x93};  // queries: striped, as helping is,
inline constexpr Colour results = {0x6a, 0x6a, 0x6a};  // and results: half as tall
}  // namespace ink

}  // namespace ringsched
