#include "ringsched/viz/picture.hpp"

#include <algorithm>
#include <array>

namespace ringsched {

namespace {

// Widths of the printable ASCII characters in Helvetica, thousandths of its size (Adobe's font
// metrics, 1990); Arial, Liberation Sans and Nimbus Sans have the same.
constexpr std::array<std::uint16_t, 95> kHelvetica = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
constexpr double kBold = 1.08;     // an upper bound
constexpr double kUnknown = 0.75;  // of a character outside ASCII

}  // namespace

double text_width(std::string_view text, double size, bool bold) {
  double thousandths = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      thousandths += kHelvetica[byte - 0x20];
    } else if ((byte & 0xc0) != 0x80) {  // the first byte of a character
      thousandths += 1000 * kUnknown;
    }
  }
  return thousandths / 1000 * size * (bold ? kBold : 1);
}

std::string shortened(std::string text, double size, double room) {
  if (text_width(text, size) <= room) return text;
  std::size_t keep = text.size() / 2;
  for (; keep > 1; --keep) {
    std::size_t head = keep, tail = text.size() - keep;
    while (head > 0 && (static_cast<unsigned char>(text[head]) & 0xc0) == 0x80) --head;
    while (tail < text.size() && (static_cast<unsigned char>(text[tail]) & 0xc0) == 0x80) ++tail;
    std::string cut = text.substr(0, head) + "..." + text.substr(tail);
    if (text_width(cut, size) <= room) return cut;
  }
  return text.substr(0, 1);
}

std::vector<std::string> wrapped(std::string_view text, double size, double room, bool bold) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t end = text.size();
    while (text_width(text.substr(0, end), size, bold) > room) {
      const std::size_t space = text.rfind(' ', end - 1);
      if (space == text.npos || space == 0) break;
      end = space;
    }
    if (end == text.size() && text_width(text, size, bold) > room)
      end = std::min(text.find(' '), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

Box bounds(const Label& l) {
  const double width = text_width(l.text, l.size, l.bold);
  const double left = l.anchor == Anchor::Start    ? l.x
                      : l.anchor == Anchor::Middle ? l.x - width / 2
                                                   : l.x - width;
  Box box;
  box.x = left;
  box.y = l.y - 0.74 * l.size;
  box.width = width;
  box.height = 0.96 * l.size;
  return box;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

}  // namespace ringsched
