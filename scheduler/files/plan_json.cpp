#include "plan_json.hpp"

#include <algorithm>

#include "json_scan.hpp"
#include "ringsched/scheduler/file.hpp"

namespace ringsched::plan_file {

std::string Where::begin() const {
  if (part.empty()) return fmt::format("{}: ", file);
  if (number < 0) return fmt::format("{}: {}: ", file, part);
  return fmt::format("{}: {} {}: ", file, part, number);
}

std::string padded(std::string_view json) {
  std::string buffer;
  buffer.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  return buffer.append(json).append(simdjson::SIMDJSON_PADDING, '\0');
}

dom::object parse(dom::parser& parser, const std::string& padded, std::string_view file) {
  const Where where{file};
  const std::size_t length = padded.size() - simdjson::SIMDJSON_PADDING;
  dom::element document;
  dom::object root;
  auto error = parser.allocate(std::max<std::size_t>(length, 64), kMaxJsonDepth);
  if (padded.starts_with('\xef')) error = simdjson::TAPE_ERROR;  // some versions skip a mark
  if (error == simdjson::SUCCESS) error = parser.parse(padded.data(), length, false).get(document);
  if (error == simdjson::SUCCESS && document.get(root) == simdjson::SUCCESS) return root;
  if (error == simdjson::MEMALLOC) where.fail("not enough memory to read {} bytes of JSON", length);
  JsonScanner scanner(file, kMaxJsonDepth);
  scanner.read(std::string_view(padded).substr(0, length));
  scanner.end();
  if (error == simdjson::UTF8_ERROR) where.fail("the text is not valid UTF-8");
  where.fail("this is not valid JSON: {}", simdjson::error_message(error));
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

std::int64_t whole_number(const Found& found, std::int64_t least, std::int64_t most) {
  std::int64_t n = 0;
  if (found.element.get(n) != simdjson::SUCCESS || n < least || n > most)
    found.must_be(fmt::format("a whole number from {} to {}", least, most));
  return n;
}

std::string_view short_enough(const Where& where, std::string_view field, std::string_view text) {
  constexpr std::size_t most = 1000;
  if (text.size() > most)
    where.fail("\"{}\" has {} bytes; at most {} are allowed", field, text.size(), most);
  return text;
}

Range range(const Found& found, std::string_view things, std::size_t limit) {
  const auto& [where, field, list] = found;
  const std::string_view thing = things.substr(0, things.size() - 1);
  std::array<std::int64_t, 2> given{};
  std::size_t n = 0;
  for (const dom::element e : array(found)) {
    if (n < 2 && (e.get(given[n]) != simdjson::SUCCESS || given[n] < 0))
      where.fail("\"{}\" must be [first {}, number of {}], and {} is neither", field, thing, things,
                 describe(e));
    ++n;
  }
  if (n != 2) where.fail("\"{}\" must be [first {}, number of {}]", field, thing, things);
  const auto [first, count] = given;
  const auto most = static_cast<std::int64_t>(limit);
  if (count == 0) where.fail("\"{}\" is [{}, 0]: at least one {}", field, first, thing);
  if (first >= most || count > most - first)
    where.fail("\"{}\" is [{}, {}], but the {} are 0 to {}", field, first, count, things, most - 1);
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
}

}  // namespace ringsched::plan_file
