#include "ringsched/scheduler/work_table.hpp"

namespace ringsched {

Work work_of(const Tile& t, std::uint32_t heads) {
  return {.rows = t.rows,
          .keys = t.keys,
          .pairs = t.pairs,
          .form = t.form,
          .columns = heads,
          .bytes = {}};
}

Work work_of(const Program& program, ValueId value, Tokens rows, std::uint32_t columns) {
  return {.rows = rows.value,
          .keys = 0,
          .pairs = {},
          .form = TileForm::Empty,
          .columns = columns,
          .bytes = program.bytes(value, rows, columns)};
}

WorkId WorkTable::find_or_add_slowly(std::vector<Work>& works, const Work& work) {
  std::uint64_t key = 0;
  for (const std::int64_t part :
       {work.rows, work.keys, std::int64_t{work.columns}, work.pairs.value, work.bytes.value,
        static_cast<std::int64_t>(work.form)})
    key = (key ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15u;
  const auto [first, last] = index_.equal_range(key);
  for (auto at = first; at != last; ++at)
    if (works[at->second.value] == work) return at->second;
  const WorkId id{static_cast<std::uint32_t>(works.size())};
  works.push_back(work);
  index_.emplace(key, id);
  return id;
}

}  // namespace ringsched
