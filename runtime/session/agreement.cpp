#include "ringsched/runtime/agreement.hpp"

#include <fmt/format.h>

#include <map>

#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostRanks = 6, kMostValue = 160;

const std::string* value_of(const Facts& facts, const std::string& name) {
  for (const auto& [known, value] : facts)
    if (known == name) return &value;
  return nullptr;
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
  for (const auto& [name, value] : own) text += name + '\0' + value + '\0';
  std::vector<Facts> all;
  for (const std::string& one : world.gather(text)) {
    Facts& facts = all.emplace_back();
    for (std::size_t at = 0; at < one.size();) {
      const std::size_t middle = one.find('\0', at), end = one.find('\0', middle + 1);
      if (middle == one.npos || end == one.npos) break;
      facts.emplace_back(one.substr(at, middle - at), one.substr(middle + 1, end - middle - 1));
      at = end + 1;
    }
  }
  return disagreement(all);
}

}  // namespace ringsched
