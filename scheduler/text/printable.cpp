#include "ringsched/scheduler/printable.hpp"

#include <algorithm>

namespace ringsched {

namespace {

unsigned byte(char c) { return static_cast<unsigned char>(c); }
bool continues(char c) { return (byte(c) & 0xc0) == 0x80; }

// The length of the character that begins with this byte.
std::size_t length_by(char first) {
  return byte(first) >= 0xf0 ? 4 : byte(first) >= 0xe0 ? 3 : byte(first) >= 0xc0 ? 2 : 1;
}

// Surrogates, overlong forms, and anything beyond U+10FFFF are not UTF-8.
bool is_invalid(std::string_view c) {
  const unsigned first = byte(c[0]), second = byte(c[1]);
  return first < 0xc2 || (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
         (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90) || first > 0xf4;
}

// Of one character in UTF-8.
bool is_control(std::string_view c) {
  if (c.size() != length_by(c[0])) return true;  // none: it is cut short
  if (c.size() == 1) return byte(c[0]) < 0x20 || byte(c[0]) >= 0x7f;
  if (is_invalid(c)) return true;
  if (c.size() == 2)  // U+0080 to U+009F, and the Arabic letter mark
    return (c[0] == '\xc2' && byte(c[1]) < 0xa0) || c == "\xd8\x9c";
  if (c.starts_with("\xe2\x80"))  // direction marks; line separators, embeddings, overrides
    return c[2] == '\x8e' || c[2] == '\x8f' || (byte(c[2]) >= 0xa8 && byte(c[2]) <= 0xae);
  if (c == "\xef\xbf\xbe" || c == "\xef\xbf\xbf") return true;  // U+FFFE, U+FFFF: no characters
  return c.starts_with("\xe2\x81") && byte(c[2]) >= 0xa6 && byte(c[2]) <= 0xa9;  // isolates
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    std::size_t length = 1;
    while (length < std::min(length_by(text[0]), text.size()) && continues(text[length])) ++length;
    const std::string_view character = text.substr(0, length);
    if (out.size() + length > most) {
      // After a whole word, if there is one.
      const std::size_t space = out.rfind(' ');
      if (character != " " && space != out.npos && space > most / 2) out.resize(space);
      return out + "...";
    }
    out += is_control(character) ? "?" : character;
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace ringsched
