// Typed access to one table of a TOML file, with errors that name file, line and key.
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

// One line for each error, in the order of reading.
using Complaints = std::vector<std::string>;

// A value of the file, for an error.
inline std::string given_as(const toml::node& n) {
  if (n.is_table()) return "a table";
  if (n.is_array()) return n.as_array()->empty() ? "an empty list" : "a list";
  if (const auto text = n.value_exact<std::string>())
    return fmt::format("\"{}\"", printable(*text));
  if (const auto whole = n.value_exact<std::int64_t>()) return fmt::format("{}", *whole);
  if (const auto number = n.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto flag = n.value_exact<bool>()) return *flag ? "true" : "false";
  return "a date";
}

// One table of the file. A key that nobody has read at the end is an unknown key.
class Section {
 public:
  // `complaints`: collects all errors, if wanted; otherwise the first one is thrown.
  Section(const toml::table& table, std::string file, std::string name,
          Complaints* complaints = nullptr)
      : table_(table), file_(std::move(file)), name_(std::move(name)), complaints_(complaints) {}

  [[noreturn]] void wrong(const toml::node& at, const std::string& what) const {
    fail("{}:{}: {}", file_, at.source().begin.line, what);
  }
  // Reads something. If all errors are collected, an Error here does not end the reading of the
  // rest.
  template <class Read>
  void attempt(Read read) const {
    if (complaints_ == nullptr) return read();
    try {
      read();
    } catch (const Error& e) {
      complaints_->emplace_back(e.what());
    }
  }
  void complain(const toml::node& at, const std::string& what) const {
    attempt([&] { wrong(at, what); });
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
    attempt([&] { value = number_in(*table_.get(k), key(k), least, most); });
  }
  void count(std::string_view k, std::uint32_t& value, std::uint32_t least, std::uint32_t most) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    const auto given = n.value_exact<std::int64_t>();
    if (!given || *given < least || *given > most)
      complain(n, fmt::format("{} must be a whole number from {} to {}, not {}", key(k), least,
                              most, given_as(n)));
    else
      value = static_cast<std::uint32_t>(*given);
  }
  void flag(std::string_view k, bool& value) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    const auto given = n.value_exact<bool>();
    if (!given) complain(n, fmt::format("{} must be true or false, not {}", key(k), given_as(n)));
    value = given.value_or(value);
  }
  void text(std::string_view k, std::string& value, std::size_t most = kMostOfText) {
    if (!has(k)) return;
    attempt([&] { value = text_in(*table_.get(k), key(k), most); });
  }
  template <class T>
  void choice(std::string_view k, T& value, const std::map<std::string, T>& choices) {
    if (!has(k)) return;
    attempt([&] { value = choice_in(*table_.get(k), key(k), choices); });
  }
  template <class T>
  void choices(std::string_view k, std::vector<T>& values, const std::map<std::string, T>& among) {
    each(k, false, values, [&](const toml::node& n) { return choice_in(n, key(k), among); });
  }
  void numbers(std::string_view k, std::vector<double>& values, double least, double most) {
    each(k, false, values, [&](const toml::node& n) { return number_in(n, key(k), least, most); });
  }
  // A single number may omit the list around it.
  void one_or_more(std::string_view k, std::vector<double>& values, double least, double most) {
    double one = 0;
    if (!table_.contains(k) || !table_.get(k)->is_number()) return numbers(k, values, least, most);
    number(k, one, least, most);
    values = {one};
  }
  // `may_be_empty`: an empty list clears those of the base.
  void rates(std::string_view k, std::vector<MessageRate>& values, bool may_be_empty = false) {
    std::optional<MessageRate> before;
    each(k, may_be_empty, values, [&](const toml::node& n) {
      const toml::array* pair = n.as_array();
      if (pair == nullptr || pair->size() != 2)
        wrong(n, fmt::format("{} must be a list of [bytes, GB/s] pairs", key(k)));
      const MessageRate rate = {number_in(*pair->get(0), key(k), 1, 1e15),
                                number_in(*pair->get(1), key(k), 1e-9, 1e6)};
      if (before && (rate.bytes <= before->bytes ||
                     rate.bytes / rate.gb_per_s < before->bytes / before->gb_per_s))
        wrong(n, fmt::format("{} must be in order of size, and a longer message must not arrive "
                             "sooner; [{}, {}] follows [{}, {}]",
                             key(k), rate.bytes, rate.gb_per_s, before->bytes, before->gb_per_s));
      before = rate;
      return rate;
    });
  }
  // `figures`: as of finish().
  template <class Read>
  void section(std::string_view k, Read read, bool figures = true) {
    if (!has(k)) return;
    const toml::node& n = *table_.get(k);
    attempt([&] {
      if (!n.is_table())
        wrong(n, fmt::format("{} must be a table: [{}], not {}", key(k), key(k), given_as(n)));
      Section inner(*n.as_table(), file_, key(k), complaints_);
      read(inner);
      inner.finish(figures);
    });
  }
  template <class Read>
  void sections(std::string_view k, Read read, bool figures = true, bool may_be_empty = false) {
    if (!has(k)) return;
    attempt([&] {
      for (const toml::node& n : array(k, may_be_empty)) {
        attempt([&] {
          if (!n.is_table())
            wrong(n, fmt::format("{} must be a list of tables: [[{}]]", key(k), key(k)));
          Section inner(*n.as_table(), file_, key(k), complaints_);
          read(inner);
          inner.finish(figures);
        });
      }
    });
  }
  // How many a list has in the file, whatever is wrong with them.
  std::size_t items(std::string_view k) const {
    const toml::array* const list = table_.contains(k) ? table_.get(k)->as_array() : nullptr;
    return list == nullptr ? 1 : list->size();
  }
  // `beside`: the error names the keys that are there.
  void required(std::string_view k, bool beside = false) const {
    if (!table_.contains(k))
      complain(table_, fmt::format("{} is missing{}", key(k), beside ? given_keys() : ""));
  }
  // "; given are name and quantitiy": a misspelt key may be the missing one.
  std::string given_keys() const {
    constexpr std::size_t most = 12;
    if (table_.empty() || table_.size() > most) return "";
    std::string names;
    std::size_t i = 0;
    for (const auto& [k, node] : table_) {
      ++i;
      names += fmt::format("{}{}",
                           i == 1               ? ""
                           : i == table_.size() ? " and "
                                                : ", ",
                           printable(k.str(), 40));
    }
    return fmt::format("; given {} {}", table_.size() == 1 ? "is" : "are", names);
  }
  // `figures`: it holds numbers, so it must name their source.
  void finish(bool figures) const {
    for (const auto& [k, node] : table_)
      if (std::find(known_.begin(), known_.end(), k.str()) == known_.end())
        complain(node, unknown_name("key", key(k.str()), full_names()));
    if (figures && !table_.contains("source"))
      complain(table_, fmt::format("[{}] needs \"source\": where its figures come from", name_));
  }
  const toml::table& table() const { return table_; }

 private:
  const toml::array& array(std::string_view k, bool may_be_empty) const {
    const toml::node& n = *table_.get(k);
    if (!n.is_array() || (n.as_array()->empty() && !may_be_empty))
      wrong(n, fmt::format("{} must be a list{}, not {}", key(k),
                           may_be_empty ? "" : " that is not empty", given_as(n)));
    return *n.as_array();
  }
  template <class T, class Read>
  void each(std::string_view k, bool may_be_empty, std::vector<T>& values, Read read) {
    if (!has(k)) return;
    attempt([&] {
      values.clear();
      for (const toml::node& n : array(k, may_be_empty))
        attempt([&] { values.push_back(read(n)); });
    });
  }
  static constexpr std::size_t kMostOfText = 1000;  // bytes: messages will show it on one line
  std::string text_in(const toml::node& n, const std::string& name,
                      std::size_t most = kMostOfText) const {
    const auto given = n.value_exact<std::string>();
    if (!given || given->empty())
      wrong(n, fmt::format("{} must be a string{}", name,
                           given ? " that is not empty" : ", not " + given_as(n)));
    if (given->size() > most)
      wrong(n, fmt::format("{} has {} bytes; at most {} are allowed", name, given->size(), most));
    if (printable(*given, given->size()) != *given)
      wrong(n, fmt::format("{} must be one line of plain text", name));
    return *given;
  }
  double number_in(const toml::node& n, const std::string& name, double least, double most) const {
    const auto given = n.is_number() ? n.value<double>() : std::nullopt;
    if (!given || !(*given >= least && *given <= most))
      wrong(n, fmt::format("{} must be a number from {:g} to {:g}, not {}", name, least, most,
                           given_as(n)));
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
    wrong(n, fmt::format("{} must be one of: {}; it is {}", name, names, given_as(n)));
  }
  std::vector<std::string_view> full_names() const {
    names_.clear();
    for (const std::string& k : known_)
      if (std::ranges::find(names_, key(k)) == names_.end()) names_.push_back(key(k));
    return {names_.begin(), names_.end()};
  }

  const toml::table& table_;
  std::string file_, name_;
  Complaints* complaints_;
  std::vector<std::string> known_;
  mutable std::vector<std::string> names_;
};

}  // namespace ringsched
