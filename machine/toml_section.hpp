// Typed access to one table of a TOML file, with complaints that name file, line and key.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "toml.hpp"

namespace ringsched {

// One table of the file. Whatever was not asked for by the time it is left is an unknown key.
class Section {
 public:
  Section(const toml::table& table, std::string file, std::string name)
      : table_(table), file_(std::move(file)), name_(std::move(name)) {}

  [[noreturn]] void wrong(const toml::node& at, const std::string& what) const {
    fail("{}:{}: {}", file_, at.source().begin.line, what);
  }
  std::string key(std::string_view k) const {
    return name_.empty() ? std::string(k) : fmt::format("{}.{}", name_, k);
  }
  bool has(std::string_view k) {
    known_.emplace_back(k);
    return table_.contains(k);
  }

  void number(std::string_view k, double& value, double least, double most) {
    if (!has(k)) return;
    value = number_in(*table_.get(k), key(k), least, most);
  }
  void count(std::string_view k, std::uint32_t& value, std::uint32_t least, std::uint32_t most) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    const auto given = n.value_exact<std::int64_t>();
    if (!given || *given < least || *given > most)
      wrong(n, fmt::format("{} must be a whole number from {} to {}", key(k), least, most));
    value = static_cast<std::uint32_t>(*given);
  }
  void flag(std::string_view k, bool& value) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    const auto given = n.value_exact<bool>();
    if (!given) wrong(n, fmt::format("{} must be true or false", key(k)));
    value = *given;
  }
  void text(std::string_view k, std::string& value) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    const auto given = n.value_exact<std::string>();
    if (!given || given->empty()) wrong(n, fmt::format("{} must be a string", key(k)));
    // It will stand in lines for people.
    constexpr std::size_t most = 1000;
    if (given->size() > most)
      wrong(n, fmt::format("{} has {} bytes; at most {} are allowed", key(k), given->size(), most));
    if (printable(*given, given->size()) != *given)
      wrong(n, fmt::format("{} must be one line of plain text", key(k)));
    value = *given;
  }
  template <class T>
  void choice(std::string_view k, T& value, const std::map<std::string, T>& choices) {
    if (!has(k)) return;
    value = choice_in(*table_.get(k), key(k), choices);
  }
  template <class T>
  void choices(std::string_view k, std::vector<T>& values, const std::map<std::string, T>& among) {
    if (!has(k)) return;
    values.clear();
    for (const toml::node& n : array(k)) values.push_back(choice_in(n, key(k), among));
  }
  void numbers(std::string_view k, std::vector<double>& values, double least, double most) {
    if (!has(k)) return;
    values.clear();
    for (const toml::node& n : array(k)) values.push_back(number_in(n, key(k), least, most));
  }
  void rates(std::string_view k, std::vector<MessageRate>& values) {
    if (!has(k)) return;
    values.clear();
    for (const toml::node& n : array(k)) {
      const toml::array* pair = n.as_array();
      if (pair == nullptr || pair->size() != 2)
        wrong(n, fmt::format("{} must be a list of [bytes, GB/s] pairs", key(k)));
      const MessageRate rate = {number_in(*pair->get(0), key(k), 1, 1e15),
                                number_in(*pair->get(1), key(k), 1e-9, 1e6)};
      if (!values.empty() &&
          (rate.bytes <= values.back().bytes ||
           rate.bytes / rate.gb_per_s < values.back().bytes / values.back().gb_per_s))
        wrong(n, fmt::format(
                     "{} must be in order of size, and a longer message must not arrive sooner",
                     key(k)));
      values.push_back(rate);
    }
  }
  // `figures`: as of finish().
  template <class Read>
  void section(std::string_view k, Read read, bool figures = true) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    if (!n.is_table()) wrong(n, fmt::format("{} must be a table: [{}]", key(k), key(k)));
    Section inner(*n.as_table(), file_, key(k));
    read(inner);
    inner.finish(figures);
  }
  template <class Read>
  void sections(std::string_view k, Read read, bool figures = true) {
    if (!has(k)) return;
    for (const toml::node& n : array(k)) {
      if (!n.is_table())
        wrong(n, fmt::format("{} must be a list of tables: [[{}]]", key(k), key(k)));
      Section inner(*n.as_table(), file_, key(k));
      read(inner);
      inner.finish(figures);
    }
  }
  void required(std::string_view k) const {
    if (!table_.contains(k)) wrong(table_, fmt::format("{} is missing", key(k)));
  }
  // `figures`: it holds numbers, so it must say where they come from.
  void finish(bool figures) const {
    for (const auto& [k, node] : table_)
      if (std::find(known_.begin(), known_.end(), k.str()) == known_.end())
        wrong(node, unknown_name("key", key(k.str()), full_names()));
    if (figures && !table_.contains("source"))
      wrong(table_, fmt::format("[{}] needs \"source\": where its figures come from", name_));
  }
  const toml::table& table() const { return table_; }

 private:
  const toml::array& array(std::string_view k) const {
    const toml::node& n = *table_.get(k);
    if (!n.is_array() || n.as_array()->empty())
      wrong(n, fmt::format("{} must be a list that is not empty", key(k)));
    return *n.as_array();
  }
  double number_in(const toml::node& n, const std::string& name, double least, double most) const {
    const auto given = n.is_number() ? n.value<double>() : std::nullopt;
    if (!given || !(*given >= least && *given <= most))
      wrong(n, fmt::format("{} must be a number from {:g} to {:g}{}", name, least, most,
                           given ? fmt::format(", not {}", *given) : ""));
    return *given;
  }
  template <class T>
  T choice_in(const toml::node& n, const std::string& name,
              const std::map<std::string, T>& choices) const {
    const auto given = n.value_exact<std::string>();
    const auto found = choices.find(given.value_or(""));
    if (found != choices.end()) return found->second;
    std::string names;
    for (const auto& [choice, value] : choices) names += (names.empty() ? "" : ", ") + choice;
    wrong(n, fmt::format("{} must be one of: {}", name, names));
  }
  std::vector<std::string_view> full_names() const {
    names_.clear();
    for (const std::string& k : known_) names_.push_back(key(k));
    return {names_.begin(), names_.end()};
  }

  const toml::table& table_;
  std::string file_, name_;
  std::vector<std::string> known_;
  mutable std::vector<std::string> names_;
};

}  // namespace ringsched
