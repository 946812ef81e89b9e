#include "json_scan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLongestNumber = 1000;  // more digits than any number needs

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }
bool is_part_of_number(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// How much of the text is the beginning of a number, and whether it is a whole number.
struct NumberLength {
  std::size_t length = 0;
  bool complete = false;
};

NumberLength number_at(std::string_view text) {
  NumberLength n;
  const auto take = [&](std::string_view any) {
    if (n.length == text.size() || any.find(text[n.length]) == any.npos) return false;
    ++n.length;
    return true;
  };
  const auto digits = [&] {
    const std::size_t first = n.length;
    while (n.length < text.size() && is_digit(text[n.length])) ++n.length;
    return n.length > first;
  };
  take("-");
  n.complete = take("0") || digits();
  if (n.complete && take(".")) n.complete = digits();
  if (n.complete && take("eE")) {
    take("+-");
    n.complete = digits();
  }
  return n;
}

// Numbers without fraction and exponent have 64 bits, with or without a sign; others are doubles.
bool fits(const std::string& number) {
  if (number.find_first_of(".eE") != number.npos)
    return std::isfinite(std::strtod(number.c_str(), nullptr));
  const char* const end = number.data() + number.size();
  std::int64_t with_sign = 0;
  std::uint64_t without = 0;
  return std::from_chars(number.data(), end, with_sign).ec == std::errc{} ||
         std::from_chars(number.data(), end, without).ec == std::errc{};
}

}  // namespace

void JsonScanner::wrong_at(std::size_t position, std::string_view what) const {
  fail("{}:{}:{}: {}", file_, line_, position - line_start_ + 1, what);
}

void JsonScanner::read(std::string_view piece) {
  const std::size_t before = at_;
  for (std::size_t i = 0;; ++i) {
    i += passed_over(piece.substr(i));
    at_ = before + i;
    if (i == piece.size()) return;
    const char c = piece[i];
    if (state_ == State::Number) end_number();
    if (state_ >= State::String || !is_space(c)) {
      step(c);
    } else if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    }
  }
}

// Most bytes are in the middle of a string or a number. Returns how many of these come next.
std::size_t JsonScanner::passed_over(std::string_view text) {
  std::size_t n = 0;
  if (state_ == State::String) {
    while (n < text.size() && !is_control(text[n]) && text[n] != '"' && text[n] != '\\') ++n;
  } else if (state_ == State::Number) {
    while (n < text.size() && is_part_of_number(text[n]) && token_.size() + n < kLongestNumber) ++n;
    token_.append(text.substr(0, n));
  }
  return n;
}

void JsonScanner::end() {
  if (state_ == State::End) return;
  if (state_ == State::Number && number_at(token_).complete) end_number();
  wrong(state_ == State::Document ? "the file is empty" : "the file is cut off here");
}

void JsonScanner::step(char c) {
  switch (state_) {
    case State::Document:
      if (c == '{') return open(c);
      wrong(c == '\xef' ? "the file starts with a byte order mark; save it as UTF-8 without one"
                        : "expected an object, which begins with '{'");
    case State::ValueOrClose:
      if (c == ']') return close();
      [[fallthrough]];
    case State::Value:
      return begin_value(c);
    case State::KeyOrClose:
      if (c == '}') return close();
      [[fallthrough]];
    case State::Key:
      if (c != '"') wrong("expected the name of a field, in quotes");
      is_key_ = true;
      state_ = State::String;
      return;
    case State::Colon:
      if (c != ':') wrong("expected ':'");
      state_ = State::Value;
      return;
    case State::CommaOrClose:
      if (c == closings_.back()) return close();
      if (c != ',') wrong(fmt::format("expected ',' or '{}'", closings_.back()));
      state_ = closings_.back() == '}' ? State::Key : State::Value;
      return;
    case State::Word:
      if (c != word_[at_ - begin_]) wrong(fmt::format("expected {}", word_));
      if (at_ - begin_ + 1 == word_.size()) after_value();
      return;
    case State::End:
      wrong("extra text after the end of the JSON");
    case State::Escape:
      return escape(c);
    default:
      return string_byte(c);
  }
}

void JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    is_key_ = false;
    state_ = State::String;
    return;
  }
  begin_ = at_;
  for (const std::string_view word : {"true", "false", "null"})
    if (c == word.front()) {
      word_ = word;
      state_ = State::Word;
      return;
    }
  if (c != '-' && !is_digit(c))
    wrong("expected a value: a number, a string, true, false, null, a list or an object");
  token_ = c;
  state_ = State::Number;
}

void JsonScanner::open(char c) {
  if (closings_.size() == max_depth_)
    wrong(fmt::format("nested more than {} levels deep", max_depth_));
  closings_ += c == '{' ? '}' : ']';
  state_ = c == '{' ? State::KeyOrClose : State::ValueOrClose;
}

void JsonScanner::close() {
  closings_.pop_back();
  after_value();
}

void JsonScanner::after_value() { state_ = closings_.empty() ? State::End : State::CommaOrClose; }

void JsonScanner::end_number() {
  if (token_.size() == kLongestNumber) wrong_at(begin_, "the number is too large");
  const NumberLength n = number_at(token_);
  if (!n.complete) wrong_at(begin_ + n.length, "expected a digit");
  if (n.length < token_.size())
    wrong_at(begin_ + n.length, fmt::format("expected ',' or '{}'", closings_.back()));
  if (!fits(token_)) wrong_at(begin_, "the number is too large");
  after_value();
}

void JsonScanner::string_byte(char c) {
  if (c == '"') {
    state_ = State::Colon;
    if (!is_key_) after_value();
  } else if (c == '\\') {
    begin_ = at_;
    token_ = c;
    state_ = State::Escape;
  } else {
    wrong("a line break or control character inside a string");
  }
}

// One letter, \uXXXX, or two of these: a surrogate pair.
void JsonScanner::escape(char c) {
  const auto half = [&] { wrong_at(begin_, "half of a surrogate pair in a string"); };
  const std::size_t n = token_.size();
  token_ += c;
  if (n == 1) {
    if (c == 'u') return;
    if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos)
      wrong("unknown escape in a string");
    state_ = State::String;
  } else if (n == 6 || n == 7) {
    if (c != (n == 6 ? '\\' : 'u')) half();
  } else {
    unsigned unit = 0;
    if (std::from_chars(&c, &c + 1, unit, 16).ec != std::errc{})
      wrong("expected four hexadecimal digits after \\u");
    if (n != 5 && n != 11) return;
    std::from_chars(token_.data() + n - 3, token_.data() + n + 1, unit, 16);
    const bool is_second = unit >= 0xdc00 && unit < 0xe000;
    if (is_second != (n == 11)) half();
    if (unit < 0xd800 || unit >= 0xdc00) state_ = State::String;
  }
}

}  // namespace ringsched
