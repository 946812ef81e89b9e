#include "ringsched/scheduler/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostShown = 30;  // of all known names, which may come from a file

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string_view> known) {
  using Rule = std::function<bool(std::string_view)>;
  std::string shown = printable(given);
  const Rule is_meant = [&](std::string_view name) {
    return shown.size() >= 4 && name.starts_with(shown);
  };
  const Rule holds_it = [&](std::string_view name) {  // h100 in hgx-h100
    return shown.size() >= 3 && name.find(shown) != name.npos;
  };
  const Rule ends_alike = [&](std::string_view name) {  // dgx-h100 and hgx-h100
    const std::size_t dash = shown.rfind('-');
    return dash != shown.npos && dash > 1 && shown.size() > dash + 3 &&
           name.ends_with(std::string_view(shown).substr(dash));
  };
  std::string lower = shown;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (std::find(known.begin(), known.end(), lower) != known.end()) shown = lower;
  for (const Rule& rule : {is_meant, holds_it, ends_alike})
    if (const auto found = std::find_if(known.begin(), known.end(), rule); found != known.end())
      return fmt::format("; did you mean {}?", printable(*found));
  const auto distance = [&](std::string_view name) {  // of two equally near, the one as long
    return std::pair(edit_distance(shown, name), name.size() != shown.size());
  };
  const auto nearest = std::min_element(known.begin(), known.end(),
                                        [&](auto a, auto b) { return distance(a) < distance(b); });
  if (nearest == known.end()) return "";
  const std::size_t apart = edit_distance(shown, *nearest);
  const bool near = apart <= std::max<std::size_t>(2, shown.size() / 3) &&
                    apart < std::max(shown.size(), nearest->size());  // not all characters differ
  return near ? fmt::format("; did you mean {}?", printable(*nearest)) : "";
}

std::string unknown_name(std::string_view what, std::string_view given,
                         std::span<const std::string_view> known) {
  std::string all;
  for (std::size_t i = 0; i < std::min(known.size(), kMostShown); ++i)
    all += (i == 0 ? "" : ", ") + printable(known[i]);
  if (known.size() > kMostShown) all += fmt::format(" and {} more", known.size() - kMostShown);
  return fmt::format("unknown {} '{}'{} (known: {})", what, printable(given),
                     did_you_mean(given, known), all);
}

std::string any_of(std::span<const std::string_view> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return out;
}

void check_choice(std::string_view flag, std::string_view given,
                  std::initializer_list<std::string_view> names) {
  if (std::find(names.begin(), names.end(), given) != names.end()) return;
  const std::span<const std::string_view> known(names.begin(), names.size());
  fail("{} is '{}'{} (use {})", flag, printable(given, 60), did_you_mean(given, known),
       any_of(known));
}

}  // namespace ringsched
