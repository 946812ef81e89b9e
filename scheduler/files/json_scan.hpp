// Reads the JSON text of an object piece by piece, as it comes in, and stops at the first byte that
// no such text can have there. So an endless input is refused at once, and every fault has a place;
// simdjson parses whole texts only and does not say where many of their faults are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringsched {

struct JsonFault {
  std::size_t line = 1, column = 1;  // both from 1; the column counts bytes
  std::string what;
};

// Throws the Error "plan.json:3:2: expected ...".
[[noreturn]] void fail_at(std::string_view file, const JsonFault&);

class JsonScanner {
 public:
  explicit JsonScanner(std::size_t max_depth) : max_depth_(max_depth) {}  // at most 64

  // False from the first fault on. UTF-8 is not looked at.
  bool read(std::string_view piece);
  // The text ends here.
  bool end();
  const JsonFault& fault() const { return fault_; }

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
    Escape,     // behind a backslash
    Unit,       // in the digits of \uXXXX
    Surrogate,  // the backslash of the second half must come
    SurrogateU,
    Number,
    Word,
    Failed,
  };

  std::size_t passed_over(std::string_view text);
  bool step(char c);
  bool begin_value(char c);
  bool open(char c);
  bool close();
  bool string_byte(char c);
  bool escape(char c);
  bool unit_digit(char c);
  bool end_number();
  void after_value();
  bool in_object() const { return (is_object_ >> (depth_ - 1) & 1u) != 0; }
  char closing() const { return in_object() ? '}' : ']'; }
  bool wrong(std::string what) { return wrong_at(at_, std::move(what)); }
  bool wrong_at(std::size_t position, std::string what);

  std::size_t max_depth_;
  State state_ = State::Document;
  std::size_t at_ = 0;  // bytes before the one being looked at
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;  // where it begins
  std::size_t depth_ = 0;
  std::uint64_t is_object_ = 0;       // by level, from the outermost
  bool is_key_ = false;               // the string being read
  std::size_t begin_ = 0;             // of the number or escape being read
  std::string number_;                // read so far
  std::string_view word_, expected_;  // what is left of true, false or null, and the whole of it
  unsigned unit_ = 0, digits_ = 0;    // of \uXXXX: value, and how many digits
  bool second_half_ = false;          // of a surrogate pair
  JsonFault fault_;
};

}  // namespace ringsched
