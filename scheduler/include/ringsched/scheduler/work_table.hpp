// Finds the id of a Work among those a plan already has, or adds it. Used by whatever makes plans.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

Work work_of(const Tile&, std::uint32_t heads);
Work work_of(const Program&, ValueId, Tokens rows, std::uint32_t columns);

class WorkTable {
 public:
  WorkId find_or_add(std::vector<Work>& works, const Work& work) {
    // Plans ask for the same few over and over: a small cache in front saves the hashing.
    const auto mix = static_cast<std::uint64_t>(work.rows + 3 * work.keys + work.bytes.value) +
                     static_cast<std::uint64_t>(work.form);
    WorkId& recent = recent_[(mix * 0x9e3779b97f4a7c15u) >> 58];
    if (!recent.valid() || works[recent.value] != work) recent = find_or_add_slowly(works, work);
    return recent;
  }

 private:
  WorkId find_or_add_slowly(std::vector<Work>& works, const Work& work);

  std::array<WorkId, 64> recent_{};
  std::unordered_multimap<std::uint64_t, WorkId> index_;
};

}  // namespace ringsched
