#include "ringsched/scheduler/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

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

std::string unknown_name(std::string_view what, std::string_view given,
                         std::span<const std::string_view> known) {
  const std::string shown = printable(given);
  const auto nearest = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
    return edit_distance(shown, a) < edit_distance(shown, b);
  });
  std::string hint;
  if (nearest != known.end() &&
      edit_distance(shown, *nearest) <= std::max<std::size_t>(2, shown.size() / 3))
    hint = fmt::format("; did you mean {}?", printable(*nearest));
  std::string all;
  for (std::size_t i = 0; i < std::min(known.size(), kMostShown); ++i)
    all += (i == 0 ? "" : ", ") + printable(known[i]);
  if (known.size() > kMostShown) all += fmt::format(" and {} more", known.size() - kMostShown);
  return fmt::format("there is no {} '{}'{} (known: {})", what, shown, hint, all);
}

}  // namespace ringsched
