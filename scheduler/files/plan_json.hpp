// Typed access to JSON with messages fit for people: every failure says which file, which part of
// it, what was found and what is allowed.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched::plan_file {

namespace dom = simdjson::dom;

// What a message begins with: "plan.json: task 17: ".
struct Where {
  std::string_view file;
  std::string_view part = {};
  std::int64_t number = -1;  // of the part; -1: there is but one

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(begin() + fmt::format(text, std::forward<Args>(args)...));
  }
  // Runs what throws Errors that know nothing of files, and adds the beginning to theirs.
  template <class Function>
  auto of(Function&& function) const {
    try {
      return function();
    } catch (const Error& e) {
      throw Error(begin() + e.what());
    }
  }
  std::string begin() const;
};

// The text with the room behind it that simdjson wants.
std::string padded(std::string_view json);
// The object that a padded text holds; it lives as long as the parser.
dom::object parse(dom::parser&, const std::string& padded, std::string_view file);

std::string describe(dom::element found);

std::int64_t whole_number(const Where&, std::string_view field, dom::element, std::int64_t least,
                          std::int64_t most);
bool boolean(const Where&, std::string_view field, dom::element);
std::string_view string(const Where&, std::string_view field, dom::element);
// What will stand in lines for people, or an Error.
std::string_view short_enough(const Where&, std::string_view field, std::string_view text);
dom::array array(const Where&, std::string_view field, dom::element);
dom::object object(const Where&, std::string_view field, dom::element);
// [first, count] of some of `limit` things, which messages call by this plural.
struct Range {
  std::uint32_t first, count;
};
Range range(const Where&, std::string_view field, dom::element, std::string_view things,
            std::size_t limit);

// The fields of one object, by their place among the `N` names it may have.
template <std::size_t N>
struct Fields {
  std::array<dom::element, N> at;
  std::uint32_t given = 0;

  template <class Index>
  bool has(Index i) const {
    return (given >> static_cast<unsigned>(i) & 1u) != 0;
  }
  template <class Index>
  dom::element operator[](Index i) const {
    return at[static_cast<std::size_t>(i)];
  }
};

// Files of version 1 have the first `allowed` of these names only.
template <std::size_t N>
Fields<N> read_fields(const Where& where, const std::array<std::string_view, N>& names,
                      dom::object found, std::size_t allowed = N) {
  static_assert(N <= 32);
  Fields<N> fields;
  for (const dom::key_value_pair pair : found) {
    std::size_t i = 0;
    while (i < N && names[i] != pair.key) ++i;
    if (i == N) where.fail("{}", unknown_name("field", pair.key, names));
    if (i >= allowed) where.fail("\"{}\" needs \"version\":2; this file says 1", names[i]);
    if (fields.has(i)) where.fail("\"{}\" is given twice", names[i]);
    fields.given |= 1u << i;
    fields.at[i] = pair.value;
  }
  return fields;
}

template <class Index, std::size_t N>
void require(const Where& where, const Fields<N>& fields,
             const std::array<std::string_view, N>& names, std::initializer_list<Index> required) {
  for (const Index i : required)
    if (!fields.has(i)) where.fail("\"{}\" is missing", names[static_cast<std::size_t>(i)]);
}

}  // namespace ringsched::plan_file
