#include "json_scan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLongestNumber = 1000;  // more digits than any number has a use for

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }
bool is_part_of_number(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// How much of the text is the beginning of a number; `whole`: that has no fraction and exponent.
struct NumberLength {
  std::size_t length = 0;
  bool complete = false, whole = true;
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
  if (n.complete && take(".")) {
    n.whole = false;
    n.complete = digits();
  }
  if (n.complete && take("eE")) {
    n.whole = false;
    take("+-");
    n.complete = digits();
  }
  return n;
}

// Whole numbers have 64 bits, with a sign or without; others are doubles.
bool fits(const std::string& number, bool whole) {
  if (!whole) return std::isfinite(std::strtod(number.c_str(), nullptr));
  const char* const end = number.data() + number.size();
  std::int64_t with_sign = 0;
  std::uint64_t without = 0;
  return std::from_chars(number.data(), end, with_sign).ec == std::errc{} ||
         std::from_chars(number.data(), end, without).ec == std::errc{};
}

}  // namespace

void fail_at(std::string_view file, const JsonFault& fault) {
  fail("{}:{}:{}: {}", file, fault.line, fault.column, fault.what);
}

bool JsonScanner::wrong_at(std::size_t position, std::string what) {
  state_ = State::Failed;
  fault_ = {line_, position - line_start_ + 1, std::move(what)};
  return false;
}

bool JsonScanner::read(std::string_view piece) {
  if (state_ == State::Failed) return false;
  const std::size_t before = at_;
  for (std::size_t i = 0;; ++i) {
    i += passed_over(piece.substr(i));
    at_ = before + i;
    if (i == piece.size()) return true;
    const char c = piece[i];
    if (state_ == State::Number && !end_number()) return false;
    if (is_space(c) && state_ < State::String) {
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    } else if (!step(c)) {
      return false;
    }
  }
}

// Most bytes are in the middle of a string or a number. Returns how many of these come next.
std::size_t JsonScanner::passed_over(std::string_view text) {
  std::size_t n = 0;
  if (state_ == State::String) {
    while (n < text.size() && !is_control(text[n]) && text[n] != '"' && text[n] != '\\') ++n;
  } else if (state_ == State::Number) {
    while (n < text.size() && is_part_of_number(text[n]) && number_.size() + n < kLongestNumber)
      ++n;
    number_.append(text.substr(0, n));
  }
  return n;
}

bool JsonScanner::end() {
  if (state_ == State::Failed) return false;
  if (state_ == State::End) return true;
  if (state_ == State::Number && number_at(number_).complete && !end_number()) return false;
  return wrong(state_ == State::Document ? "the file is empty" : "the file ends in the middle");
}

bool JsonScanner::step(char c) {
  switch (state_) {
    case State::Document:
      if (c == '{') return open(c);
      return wrong(c == '\xef'
                       ? "the file starts with a byte order mark; save it as UTF-8 without one"
                       : "expected an object, which begins with '{'");
    case State::ValueOrClose:
      if (c == ']') return close();
      return begin_value(c);
    case State::Value:
      return begin_value(c);
    case State::KeyOrClose:
      if (c == '}') return close();
      [[fallthrough]];
    case State::Key:
      if (c != '"') return wrong("expected the name of a field, in quotes");
      is_key_ = true;
      state_ = State::String;
      return true;
    case State::Colon:
      if (c != ':') return wrong("expected ':'");
      state_ = State::Value;
      return true;
    case State::CommaOrClose:
      if (c == closing()) return close();
      if (c != ',') return wrong(fmt::format("expected ',' or '{}'", closing()));
      state_ = in_object() ? State::Key : State::Value;
      return true;
    case State::Word:
      if (c != word_.front()) return wrong(fmt::format("expected {}", expected_));
      word_.remove_prefix(1);
      if (word_.empty()) after_value();
      return true;
    case State::End:
      return wrong("there is something after the end of the JSON text");
    default:
      return string_byte(c);
  }
}

bool JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    is_key_ = false;
    state_ = State::String;
    return true;
  }
  for (const std::string_view word : {"true", "false", "null"})
    if (c == word.front()) {
      expected_ = word;
      word_ = word.substr(1);
      state_ = State::Word;
      return true;
    }
  if (c != '-' && !is_digit(c))
    return wrong("expected a value: a number, a string, true, false, null, a list or an object");
  begin_ = at_;
  number_.assign(1, c);
  state_ = State::Number;
  return true;
}

bool JsonScanner::open(char c) {
  if (depth_ == max_depth_)
    return wrong(fmt::format("nested more than {} levels deep", max_depth_));
  const std::uint64_t level = std::uint64_t{1} << depth_++;
  is_object_ = c == '{' ? is_object_ | level : is_object_ & ~level;
  state_ = c == '{' ? State::KeyOrClose : State::ValueOrClose;
  return true;
}

bool JsonScanner::close() {
  --depth_;
  after_value();
  return true;
}

void JsonScanner::after_value() { state_ = depth_ == 0 ? State::End : State::CommaOrClose; }

bool JsonScanner::end_number() {
  if (number_.size() == kLongestNumber) return wrong_at(begin_, "the number is too large");
  const NumberLength n = number_at(number_);
  if (!n.complete) return wrong_at(begin_ + n.length, "expected a digit");
  if (n.length < number_.size())
    return wrong_at(begin_ + n.length, fmt::format("expected ',' or '{}'", closing()));
  if (!fits(number_, n.whole)) return wrong_at(begin_, "the number is too large");
  after_value();
  return true;
}

bool JsonScanner::string_byte(char c) {
  switch (state_) {
    case State::Escape:
      return escape(c);
    case State::Unit:
      return unit_digit(c);
    case State::Surrogate:
    case State::SurrogateU:
      if (c != (state_ == State::Surrogate ? '\\' : 'u'))
        return wrong_at(begin_, "half of a surrogate pair in a string");
      state_ = state_ == State::Surrogate ? State::SurrogateU : State::Unit;
      return true;
    default:
      break;
  }
  if (c == '"') {
    state_ = State::Colon;
    if (!is_key_) after_value();
  } else if (c == '\\') {
    begin_ = at_;
    state_ = State::Escape;
  } else {
    return wrong("a line break or control character inside a string");
  }
  return true;
}

bool JsonScanner::escape(char c) {
  second_half_ = false;
  unit_ = digits_ = 0;
  if (c != 'u' && std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos)
    return wrong("unknown escape in a string");
  state_ = c == 'u' ? State::Unit : State::String;
  return true;
}

bool JsonScanner::unit_digit(char c) {
  unsigned digit = 0;
  if (std::from_chars(&c, &c + 1, digit, 16).ec != std::errc{})
    return wrong("expected four hexadecimal digits after \\u");
  unit_ = unit_ * 16 + digit;
  if (++digits_ < 4) return true;
  const bool first = unit_ >= 0xd800 && unit_ < 0xdc00, second = unit_ >= 0xdc00 && unit_ < 0xe000;
  if (second != second_half_) return wrong_at(begin_, "half of a surrogate pair in a string");
  state_ = first ? State::Surrogate : State::String;
  second_half_ = first;
  unit_ = digits_ = 0;
  return true;
}

}  // namespace ringsched
