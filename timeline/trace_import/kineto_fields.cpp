#include "kineto_fields.hpp"

#include <limits>
#include <utility>

namespace ringsched::trace_import {

std::string_view text_of(dom::object o, std::string_view field) {
  std::string_view text;
  return o[field].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

namespace {
std::int64_t number_of(dom::element e, std::int64_t otherwise) {
  std::int64_t n = 0;
  return e.get(n) == simdjson::SUCCESS ? n : otherwise;
}
}  // namespace

std::int64_t number_of(dom::object o, std::string_view field, std::int64_t otherwise) {
  dom::element e;
  return o[field].get(e) == simdjson::SUCCESS ? number_of(e, otherwise) : otherwise;
}

std::int64_t element_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::int64_t> names[] = {
      {"float", 4},         {"double", 8},      {"c10::BFloat16", 2}, {"c10::Half", 2},
      {"unsigned char", 1}, {"signed char", 1}, {"bool", 1},          {"int", 4},
      {"long int", 8},      {"Float", 4},       {"Double", 8},        {"BFloat16", 2},
      {"Half", 2},          {"Byte", 1},        {"Char", 1},          {"Int", 4},
      {"Long", 8}};
  for (const auto& [name, bytes] : names)
    if (name == dtype) return bytes;
  return 0;
}

namespace {
// The length of a sequence: the last side but one, as PyTorch has batch, heads, sequence and size.
std::int64_t sequence_length(dom::array shapes, std::size_t place) {
  dom::array shape;
  if (shapes.at(place).get(shape) != simdjson::SUCCESS || shape.size() != 4) return -1;
  const std::int64_t n = number_of(shape.at(2).value(), -1);
  return n > 0 && n < std::int64_t{1} << 31 ? n : -1;
}
}  // namespace

std::int64_t attended_pairs(dom::object args, const AttendArguments& places) {
  dom::array shapes, inputs, mask;
  std::string_view causal;
  if (args["Input Dims"].get(shapes) != simdjson::SUCCESS ||
      args["Concrete Inputs"].get(inputs) != simdjson::SUCCESS ||
      inputs.at(places.causal).get(causal) != simdjson::SUCCESS ||
      shapes.at(places.mask).get(mask) != simdjson::SUCCESS || mask.size() > 0)
    return -1;
  const std::int64_t queries = sequence_length(shapes, places.query);
  const std::int64_t keys = sequence_length(shapes, places.query + 1);
  if (queries < 0 || keys < 0) return -1;
  if (causal == "False") return queries * keys;
  return causal == "True" && queries == keys ? queries * (queries + 1) / 2 : -1;
}

std::int64_t input_bytes(dom::object args) {
  dom::array shapes, types, shape;
  std::string_view type;
  if (args["Input Dims"].get(shapes) != simdjson::SUCCESS ||
      args["Input type"].get(types) != simdjson::SUCCESS ||
      shapes.at(0).get(shape) != simdjson::SUCCESS || types.at(0).get(type) != simdjson::SUCCESS)
    return -1;
  std::int64_t bytes = element_bytes(type);
  for (const dom::element side : shape) {
    const std::int64_t n = number_of(side, -1);
    if (n < 0 || (n > 0 && bytes > std::numeric_limits<std::int64_t>::max() / n / 64)) return -1;
    bytes *= n;
  }
  return bytes > 0 ? bytes : -1;
}

std::int64_t call_argument(dom::object args, std::size_t place) {
  dom::array inputs;
  std::string_view text;
  if (args["Concrete Inputs"].get(inputs) != simdjson::SUCCESS ||
      inputs.at(place).get(text) != simdjson::SUCCESS || text.empty() || text.size() > 9)
    return -1;
  std::int64_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    n = 10 * n + (c - '0');
  }
  return n;
}

}  // namespace ringsched::trace_import
