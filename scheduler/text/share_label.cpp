#include "ringsched/scheduler/share_label.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace ringsched {

namespace {

std::string workers_label(const Layout& layout, Region r) {
  std::vector<std::uint32_t> workers;
  for (std::uint32_t c = r.first.value; c < r.end(); c = layout.share({workers.back()}).end())
    workers.push_back(layout.owner({c}).value);
  const std::uint32_t every = workers[1] - workers[0];
  bool is_even = every == 1 || workers.size() > 2;
  for (std::size_t i = 1; i < workers.size(); ++i)
    is_even = is_even && workers[i] - workers[i - 1] == every;
  if (!is_even) return fmt::format("{}", fmt::join(workers, "+"));
  const std::string ends = fmt::format("{}-{}", workers.front(), workers.back());
  return every == 1 ? ends : fmt::format("{}/{}", ends, every);
}

}  // namespace

std::string chunks_label(std::uint32_t first, std::uint32_t last) {
  const char* const between = last > first + 1 ? "-" : "";
  if (last >= 26)
    return first == last ? fmt::format(".{}", first + 1)
                         : fmt::format(".{}-{}", first + 1, last + 1);
  const auto letter = [](std::uint32_t c) { return static_cast<char>('a' + c); };
  if (first == last) return {letter(first)};
  return fmt::format("{}{}{}", letter(first), between, letter(last));
}

std::string share_label(const Plan& plan, RegionId id) {
  const Region r = plan.regions[id.value];
  const WorkerId owner = plan.layout.owner(r.first);
  const Region share = plan.layout.share(owner);
  if (r == share) return fmt::format("{}", owner.value);
  if (!share.contains(r)) return workers_label(plan.layout, r);
  return fmt::format(
      "{}{}", owner.value,
      chunks_label(r.first.value - share.first.value, r.end() - 1 - share.first.value));
}

std::string heads_label(const Plan& plan, const Task& attend) {
  const Piece& piece = plan.piece(attend);
  const ColumnRange c = piece.columns;
  if (c == plan.program[piece.value].all_columns()) return "";
  return c.count == 1 ? fmt::format(" h{}", c.first) : fmt::format(" h{}-{}", c.first, c.end() - 1);
}

}  // namespace ringsched
