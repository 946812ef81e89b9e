// Typed access to JSON with readable errors: each says which file, which part of it, what was found
// and what is allowed.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched::plan_file {

namespace dom = simdjson::dom;

// What a message begins with: "plan.json: task 17: ".
struct Where {
  std::string_view file;
  std::string_view part = {};
  std::int64_t number = -1;  // of the part; -1: there is only one

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(begin() + fmt::format(text, std::forward<Args>(args)...));
  }
  // Runs code whose Errors know nothing of files, and adds the beginning to them.
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

// The text with the room after it that simdjson needs.
std::string padded(std::string_view json);
// The object in a padded text; it lives as long as the parser.
dom::object parse(dom::parser&, const std::string& padded, std::string_view file);

std::string describe(dom::element found);

// What a part has in a field, or in a list that is one.
struct Found {
  const Where& where;
  std::string_view field;
  dom::element element;

  [[noreturn]] void must_be(std::string_view allowed) const {
    where.fail("\"{}\" must be {}, not {}", field, allowed, describe(element));
  }
  template <class T>
  T as(std::string_view type) const {
    T value{};
    if (element.get(value) != simdjson::SUCCESS) must_be(type);
    return value;
  }
};
inline bool boolean(const Found& f) { return f.as<bool>("true or false"); }
inline std::string_view string(const Found& f) { return f.as<std::string_view>("a string"); }
inline dom::array array(const Found& f) { return f.as<dom::array>("a list"); }
inline dom::object object(const Found& f) { return f.as<dom::object>("an object"); }
inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();
std::int64_t whole_number(const Found&, std::int64_t least, std::int64_t most = kAnyNumber);
// Throws Error unless people's messages can show it on one line.
std::string_view short_enough(const Where&, std::string_view field, std::string_view text);
// [first, count] of `limit` things, which messages call by this plural.
struct Range {
  std::uint32_t first, count;
};
Range range(const Found&, std::string_view things, std::size_t limit);

// The place in `list` of the thing with this name, which an Error calls a `what`.
template <class List, class Name>
std::uint32_t place_of(const Found& found, std::string_view what, const List& list, Name name) {
  const std::string_view text = string(found);
  const auto at = std::ranges::find(list, text, name);
  if (at != list.end()) return static_cast<std::uint32_t>(at - list.begin());
  std::vector<std::string_view> names;
  for (const auto& thing : list) names.push_back(std::invoke(name, thing));
  found.where.fail("{}", unknown_name(what, text, names));
}

// The fields of one object, of which `names` lists all; asking for another does not compile.
template <const auto& names>
class Fields {
 public:
  struct Name {
    consteval Name(const char* text) {
      while (names[index] != text) ++index;
    }
    std::string_view text() const { return names[index]; }
    std::size_t index = 0;
  };

  // Files of version 1 have the first `allowed` names only.
  Fields(const Where& w, dom::object found, std::size_t allowed = names.size()) : where(w) {
    for (const dom::key_value_pair pair : found) {
      std::size_t i = 0;
      while (i < names.size() && names[i] != pair.key) ++i;
      if (i == names.size()) where.fail("{}", unknown_name("field", pair.key, names));
      if (i >= allowed) where.fail("\"{}\" needs \"version\":2; this file says 1", names[i]);
      if ((given_ >> i & 1u) != 0) where.fail("\"{}\" is given twice", names[i]);
      given_ |= 1u << i;
      at_[i] = pair.value;
    }
  }

  bool has(Name n) const { return (given_ >> n.index & 1u) != 0; }
  Found operator[](Name n) const { return {where, n.text(), at_[n.index]}; }
  template <class T = std::int64_t>
  T number(Name n, std::int64_t least, std::int64_t most = kAnyNumber) const {
    return static_cast<T>(whole_number((*this)[n], least, most));
  }
  void require(std::initializer_list<Name> required) const {
    for (const Name n : required)
      if (!has(n)) where.fail("\"{}\" is missing", n.text());
  }
  // The first given field that is not among these; empty: none.
  std::string_view other_than(std::uint32_t set) const {
    const std::uint32_t others = given_ & ~set;
    return others == 0 ? std::string_view{}
                       : names[static_cast<std::size_t>(std::countr_zero(others))];
  }
  static constexpr std::uint32_t set(std::initializer_list<Name> of) {
    std::uint32_t bits = 0;
    for (const Name n : of) bits |= 1u << n.index;
    return bits;
  }

  const Where& where;

 private:
  static_assert(names.size() <= 32);
  std::array<dom::element, names.size()> at_;
  std::uint32_t given_ = 0;
};

}  // namespace ringsched::plan_file
