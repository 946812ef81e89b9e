#include "ringsched/viz/colour.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ringsched {

namespace {

// After M. Okabe and K. Ito, "Color Universal Design" (2008), lightened so that black text can be
// read on each, and with two of Paul Tol's in place of black and yellow.
constexpr std::array<Colour, 8> kFew = {{{0x5b, 0xb4, 0xe9},
                                         {0xe8, 0x9f, 0x1c},
                                         {0x2f, 0xb3, 0x8a},
                                         {0xf0, 0xe4, 0x62},
                                         {0x5a, 0x8f, 0xd6},
                                         {0xe8, 0x7d, 0x4a},
                                         {0xd6, 0x96, 0xbe},
                                         {0xb5, 0xbd, 0x7a}}};
// Points on the scale `viridis` (S. van der Walt, N. Smith, 2015; CC0).
constexpr std::array<Colour, 9> kScale = {{{0x48, 0x28, 0x78},
                                           {0x3e, 0x4a, 0x89},
                                           {0x31, 0x68, 0x8e},
                                           {0x26, 0x82, 0x8e},
                                           {0x1f, 0x9e, 0x89},
                                           {0x35, 0xb7, 0x79},
                                           {0x6e, 0xce, 0x58},
                                           {0xb5, 0xde, 0x2b},
                                           {0xfd, 0xe7, 0x25}}};

std::uint8_t between(std::uint8_t a, std::uint8_t b, double share) {
  return static_cast<std::uint8_t>(std::lround(a + (b - a) * share));
}

// Relative luminance, as contrast is measured with (W3C, WCAG 2.1).
double luminance(Colour c) {
  const auto linear = [](double v) {
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.red / 255.0) + 0.7152 * linear(c.green / 255.0) +
         0.0722 * linear(c.blue / 255.0);
}

}  // namespace

Colour worker_colour(std::uint32_t worker, std::uint32_t workers) {
  if (workers <= kFew.size()) return kFew[worker % kFew.size()];
  const double share = static_cast<double>(worker) / (workers - 1);
  const double at = share * (kScale.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), kScale.size() - 2);
  const Colour c = mixed(kScale[below], kScale[below + 1], at - static_cast<double>(below));
  // Neighbours differ in how light they are, also in grey.
  return worker % 2 == 0 ? mixed(c, ink::black, 0.1 + 0.3 * share)
                         : mixed(c, ink::white, 0.5 - 0.4 * share);
}

Colour mixed(Colour a, Colour b, double share) {
  return {between(a.red, b.red, share), between(a.green, b.green, share),
          between(a.blue, b.blue, share)};
}

Colour text_on(Colour c) {
  const double light = luminance(c) + 0.05;
  return light / (luminance(ink::black) + 0.05) > (luminance(ink::white) + 0.05) / light
             ? ink::black
             : ink::white;
}

std::string hex(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

}  // namespace ringsched
