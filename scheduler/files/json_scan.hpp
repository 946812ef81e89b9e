// Reads the JSON text of an object piece by piece, as it comes in, and stops at the first byte that
// no such text can have there. So it refuses an endless input at once, and every fault has a place.
// simdjson parses only whole texts, and does not say where many of their faults are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringsched {

// Faults are Errors "plan.json:3:2: expected ...": line and column count from 1, and the column
// counts bytes. Nothing can be read after one.
class JsonScanner {
 public:
  // `file` is what messages call the text; it must outlive this.
  JsonScanner(std::string_view file, std::size_t max_depth) : file_(file), max_depth_(max_depth) {}

  void read(std::string_view piece);  // does not check UTF-8
  // The text ends here.
  void end();

 private:
  enum class State : std::uint8_t {
    Document,      // before the object
    Value,         // a value must come
    ValueOrClose,  // the same, or the end of an empty list
    Key,           // the name of a field must come
    KeyOrClose,    // the same, or the end of an empty object
    Colon,
    CommaOrClose,
    End,  // behind the object
    String,
    Escape,  // behind a backslash
    Number,
    Word,
  };

  std::size_t passed_over(std::string_view text);
  void step(char c);
  void begin_value(char c);
  void open(char c);
  void close();
  void string_byte(char c);
  void escape(char c);
  void end_number();
  void after_value();
  [[noreturn]] void wrong(std::string_view what) const { wrong_at(at_, what); }
  [[noreturn]] void wrong_at(std::size_t position, std::string_view what) const;

  std::string_view file_;
  std::size_t max_depth_;
  State state_ = State::Document;
  std::size_t at_ = 0;  // bytes before the current one
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;  // where it begins
  std::string closings_;        // still open, the innermost last
  bool is_key_ = false;         // the string being read
  std::size_t begin_ = 0;       // of the number, escape or word being read
  std::string token_;           // the number or escape, as far as it has been read
  std::string_view word_;       // true, false or null
};

}  // namespace ringsched
