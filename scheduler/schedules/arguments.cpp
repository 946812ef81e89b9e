// Reads what is typed after the name of a schedule.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "builder/mistake.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

namespace {

const Parameter& find(std::string_view schedule, std::span<const Parameter> all,
                      std::string_view name) {
  if (name.empty())
    fail("--schedule {}: a parameter is missing before or after ':'; write NAME:PARAMETER=VALUE",
         schedule);
  if (all.empty())
    fail("schedule {} has no parameters, but was given \"{}\"", schedule, printable(name));
  std::vector<std::string_view> names;
  for (const Parameter& p : all) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  fail("schedule {} has no parameter '{}'{} (known: {})", schedule, printable(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

std::uint32_t number(std::string_view schedule, const Parameter& p, std::string_view text) {
  if (!p.choices.empty()) {
    const auto at = std::find(p.choices.begin(), p.choices.end(), text);
    if (at == p.choices.end())
      fail("{}: parameter '{}' ({}) cannot be '{}'; use {}", schedule, p.name, p.words,
           printable(text), any_of(p.choices));
    return static_cast<std::uint32_t>(at - p.choices.begin());
  }
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < p.least || n > p.most)
    fail("{}: parameter '{}' cannot be '{}'; use a whole number from {} to {}", schedule, p.name,
         printable(text), p.least, p.most);
  return n;
}

}  // namespace

std::string value_text(const Parameter& p, std::uint32_t number) {
  return p.choices.empty() ? std::to_string(number) : std::string(p.choices[number]);
}

Arguments::Arguments(std::span<const Parameter> parameters) {
  for (const Parameter& p : parameters) numbers_.emplace_back(p.name, p.initial);
}

Arguments Arguments::parse(std::string_view schedule, std::span<const Parameter> parameters,
                           std::string_view text) {
  Arguments out(parameters);
  std::vector<bool> given(parameters.size());
  for (bool more = true; more;) {
    const std::string_view one = text.substr(0, text.find(':'));
    more = one.size() < text.size();
    text.remove_prefix(one.size() + (more ? 1 : 0));
    const std::size_t equals = std::min(one.find('='), one.size());
    const Parameter& p = find(schedule, parameters, one.substr(0, equals));
    const auto i = static_cast<std::size_t>(&p - parameters.data());
    if (equals == one.size())
      fail("{0}: parameter {1} needs a value, e.g. {0}:{1}={2}", schedule, p.name,
           value_text(p, p.initial));
    if (given[i]) fail("{}: parameter {} is given twice", schedule, p.name);
    given[i] = true;
    out.numbers_[i].second = number(schedule, p, one.substr(equals + 1));
  }
  return out;
}

std::uint32_t Arguments::operator[](std::string_view parameter) const {
  for (const auto& [name, n] : numbers_)
    if (name == parameter) return n;
  std::string known;
  for (const auto& [name, n] : numbers_) known += fmt::format(" {}", name);
  throw ScheduleMistake(fmt::format("it asks for its parameter {}; the registry gives it:{}",
                                    parameter, known.empty() ? " none" : known));
}

}  // namespace ringsched
