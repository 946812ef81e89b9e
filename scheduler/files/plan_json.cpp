#include "plan_json.hpp"

namespace ringsched::plan_file {

std::string Where::begin() const {
  if (part.empty()) return fmt::format("{}: ", file);
  if (number < 0) return fmt::format("{}: {}: ", file, part);
  return fmt::format("{}: {} {}: ", file, part, number);
}

std::string describe(dom::element found) {
  switch (found.type()) {
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return fmt::format("\"{}\"", printable(std::string_view(found)));
    default:
      return simdjson::minify(found);
  }
}

std::int64_t whole_number(const Where& where, std::string_view field, dom::element found,
                          std::int64_t least, std::int64_t most) {
  std::int64_t n = 0;
  if (found.get(n) != simdjson::SUCCESS || n < least || n > most)
    where.fail("\"{}\" must be a whole number from {} to {}, not {}", field, least, most,
               describe(found));
  return n;
}

bool boolean(const Where& where, std::string_view field, dom::element found) {
  bool b = false;
  if (found.get(b) != simdjson::SUCCESS)
    where.fail("\"{}\" must be true or false, not {}", field, describe(found));
  return b;
}

std::string_view string(const Where& where, std::string_view field, dom::element found) {
  std::string_view s;
  if (found.get(s) != simdjson::SUCCESS)
    where.fail("\"{}\" must be a string, not {}", field, describe(found));
  return s;
}

dom::array array(const Where& where, std::string_view field, dom::element found) {
  dom::array a;
  if (found.get(a) != simdjson::SUCCESS)
    where.fail("\"{}\" must be a list, not {}", field, describe(found));
  return a;
}

dom::object object(const Where& where, std::string_view field, dom::element found) {
  dom::object o;
  if (found.get(o) != simdjson::SUCCESS)
    where.fail("\"{}\" must be an object, not {}", field, describe(found));
  return o;
}

}  // namespace ringsched::plan_file
