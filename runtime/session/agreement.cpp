#include "ringsched/runtime/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostRanks = 6, kMostName = 40, kMostValue = 160, kMostFacts = 32;

const std::string* value_of(const Facts& facts, const std::string& name) {
  for (const auto& [known, value] : facts)
    if (known == name) return &value;
  return nullptr;
}

// Of names and values that each end with a zero.
Facts facts_in(const std::string& text, std::size_t rank) {
  Facts facts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t middle = text.find('\0', at);
    const std::size_t end = middle == text.npos ? middle : text.find('\0', middle + 1);
    if (end == text.npos || facts.size() == kMostFacts)
      throw RunFailed(
          fmt::format("process {} sent a description of its run that cannot be read", rank));
    facts.emplace_back(printable(text.substr(at, middle - at), kMostName),
                       text.substr(middle + 1, end - middle - 1));
    at = end + 1;
  }
  return facts;
}

std::string named(const std::vector<std::size_t>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kMostRanks) return out + fmt::format(" and {} more", ranks.size() - i);
    const bool last = i + 1 == ranks.size();
    out += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return out;
}

}  // namespace

std::string disagreement(const std::vector<Facts>& by_rank) {
  std::vector<std::string> names;
  for (const Facts& facts : by_rank)
    for (const auto& [name, value] : facts)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::string out;
  for (const std::string& name : names) {
    std::map<std::string, std::vector<std::size_t>> ranks;  // by what they have
    std::vector<std::string> values;                        // in the order of ranks
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      const std::string* value = value_of(by_rank[r], name);
      const std::string shown = value ? "'" + printable(*value, kMostValue) + "'" : "none";
      if (ranks[shown].empty()) values.push_back(shown);
      ranks[shown].push_back(r);
    }
    if (values.size() == 1) continue;
    out += fmt::format("{}{}: ", out.empty() ? "the processes do not agree on " : "; on ", name);
    for (std::size_t v = 0; v < values.size(); ++v)
      out += fmt::format("{}{} in {} {}", v == 0 ? "" : ", ", values[v],
                         ranks[values[v]].size() == 1 ? "process" : "processes",
                         named(ranks[values[v]]));
  }
  return out;
}

std::string disagreement(World& world, const Facts& own) {
  std::string text;
  for (const auto& [name, value] : own)
    text.append(name).append(1, '\0').append(value).append(1, '\0');
  std::vector<Facts> all;
  for (const std::string& one : world.gather(text)) all.push_back(facts_in(one, all.size()));
  return disagreement(all);
}

}  // namespace ringsched
