#include "json_fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <system_error>

namespace ringsched {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Each function reads one thing and is false at the first fault, which is then at at_.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t max_depth) : text_(text), max_depth_(max_depth) {}

  bool document() {
    if (!value()) return false;
    space();
    return at_ == text_.size() || wrong("there is something after the end of the JSON text");
  }

  JsonFault fault() const {
    const std::string_view before = text_.substr(0, at_);
    const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    const std::size_t newline = before.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    return {lines + 1, at_ - start + 1, what_};
  }

 private:
  bool wrong(std::string what) {
    const bool blank = text_.find_first_not_of(" \t\r\n") == text_.npos;
    what_ = blank                 ? "the file is empty"
            : at_ == text_.size() ? "the file ends in the middle"
                                  : std::move(what);
    return false;
  }
  bool wrong_at(std::size_t begin, std::string what) {
    at_ = begin;
    return wrong(std::move(what));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool value() {
    space();
    switch (peek()) {
      case '{':
      case '[':
        return container();
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool container() {
    const bool object = text_[at_] == '{';
    const char close = object ? '}' : ']';
    if (depth_ == max_depth_)
      return wrong(fmt::format("nested more than {} levels deep", max_depth_));
    ++depth_;
    ++at_;
    space();
    if (!take(close)) {
      do {
        if (object && !key()) return false;
        if (!value()) return false;
        space();
      } while (take(','));
      if (!take(close)) return wrong(fmt::format("expected ',' or '{}'", close));
    }
    --depth_;
    return true;
  }

  bool key() {
    space();
    if (peek() != '"') return wrong("expected the name of a field, in quotes");
    if (!string()) return false;
    space();
    return take(':') || wrong("expected ':'");
  }

  bool string() {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20)
        return wrong("a line break or control character inside a string");
      ++at_;
      if (c == '"') return true;
      if (c == '\\' && !escape()) return false;
    }
    return wrong("");
  }

  bool escape() {
    if (!take('u')) {
      if (std::string_view("\"\\/bfnrt").find(peek()) == text_.npos)
        return wrong("unknown escape in a string");
      ++at_;
      return true;
    }
    const std::size_t begin = at_ - 2;
    unsigned unit = 0, second = 0;
    if (!code_unit(unit)) return false;
    if (unit < 0xd800 || unit > 0xdfff) return true;
    if (unit < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      if (!code_unit(second)) return false;
      if (second >= 0xdc00 && second <= 0xdfff) return true;
    }
    return wrong_at(begin, "half of a surrogate pair in a string");
  }

  bool code_unit(unsigned& unit) {
    for (int i = 0; i < 4; ++i) {
      if (!is_hex(peek())) return wrong("expected four hexadecimal digits after \\u");
      ++at_;
    }
    std::from_chars(text_.data() + at_ - 4, text_.data() + at_, unit, 16);
    return true;
  }

  bool word(std::string_view expected) {
    for (const char c : expected)
      if (!take(c)) return wrong(fmt::format("expected {}", expected));
    return true;
  }

  bool digits() {
    if (!is_digit(peek())) return wrong("expected a digit");
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool number() {
    if (peek() != '-' && !is_digit(peek()))
      return wrong("expected a value: a number, a string, true, false, null, a list or an object");
    const std::size_t begin = at_;
    take('-');
    if (!take('0') && !digits()) return false;
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (!digits()) return false;
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    return fits(text_.substr(begin, at_ - begin), whole) ||
           wrong_at(begin, "the number is too large");
  }

  // Whole numbers have 64 bits, with a sign or without; others are doubles.
  static bool fits(std::string_view number, bool whole) {
    if (!whole) return std::isfinite(std::strtod(std::string(number).c_str(), nullptr));
    const char* const end = number.data() + number.size();
    std::int64_t with_sign = 0;
    std::uint64_t without = 0;
    return std::from_chars(number.data(), end, with_sign).ec == std::errc{} ||
           std::from_chars(number.data(), end, without).ec == std::errc{};
  }

  std::string_view text_;
  std::size_t max_depth_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::string what_;
};

}  // namespace

std::optional<JsonFault> find_json_fault(std::string_view text, std::size_t max_depth) {
  Scanner scanner(text, max_depth);
  if (scanner.document()) return {};
  return scanner.fault();
}

}  // namespace ringsched
