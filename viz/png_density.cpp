// The physical size of a PNG: its chunk pHYs (W3C, Portable Network Graphics, 11.3.5.3).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "ringsched/viz/picture.hpp"

namespace ringsched {

namespace {

// The checksum of a chunk (the same standard, annex D).
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t sum = 0xffffffff;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? 0xedb88320 ^ sum >> 1 : sum >> 1;
  }
  return ~sum;
}

std::string big_endian(std::uint32_t n) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift & 0xff);
  return out;
}

std::string chunk(std::string_view type, const std::string& data) {
  const std::string body = std::string(type) + data;
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(checksum(body));
}

}  // namespace

std::string with_density(const std::string& png, double scale) {
  constexpr std::size_t kHeader = 8 + 25;  // the signature and the first chunk
  constexpr double kPointsPerMetre = 72 / 0.0254;
  const std::string per_metre =
      big_endian(static_cast<std::uint32_t>(std::lround(scale * kPointsPerMetre)));
  std::string out = png.substr(0, kHeader) + chunk("pHYs", per_metre + per_metre + '\x01');
  // Cairo and Graphviz may have written one themselves.
  for (std::size_t at = kHeader; at + 12 <= png.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length = length << 8 | static_cast<unsigned char>(png[at + i]);
    const std::size_t end = std::min(png.size(), at + 12 + length);
    if (png.compare(at + 4, 4, "pHYs") != 0) out.append(png, at, end - at);
    at = end;
  }
  return out;
}

}  // namespace ringsched
